"""The scripts of the model zoo: on small made-up data everywhere, on the real data where it is at hand."""

import importlib.util
import struct
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest

import heterps as hps
from tests.shared_data import SHARED, needs

ROOT = Path(__file__).parents[3]


def script(name: str, **settings: object) -> ModuleType:
    """A script that runs in this thread, with other settings."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for key, value in {"ENGINE": "inline", **settings}.items():
        assert hasattr(module, key)
        setattr(module, key, value)
    return module


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory):
    def unpacked(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        with tarfile.open(SHARED / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        return folder / name

    return unpacked


# made-up data, each with a structure that only a model which works can find


def topics(path: Path) -> Path:
    """A text whose sentences keep to one of ten subjects."""
    rng = np.random.default_rng(0)
    sentences = [f"w{t}x{i}" for t in rng.integers(0, 10, 1500) for i in rng.integers(0, 12, 20)]
    path.write_text(" ".join(sentences))
    return path


def digits(folder: Path) -> Path:
    """Ten patterns under noise, as idx files."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2, (10, 8, 8)) * 160
    for part, n in (("train", 1500), ("t10k", 300)):
        labels = rng.integers(0, 10, n).astype(np.uint8)
        pixels = (patterns[labels] + rng.integers(0, 95, (n, 8, 8))).astype(np.uint8)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, n, 8, 8) + pixels.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, n) + labels.tobytes())
    return folder


def films(folder: Path) -> Path:
    """Five kinds of people, each of whom sees and likes films of one of five kinds."""
    rng = np.random.default_rng(0)
    users, items = 300, 100
    seen = {u: _tastes(u, items, rng) for u in range(users)}
    rating = "{}\t{}\t{}\t{}\n"
    for name, part in (("ua.base", slice(0, 14)), ("ua.test", slice(14, 17))):
        rows = [
            rating.format(u + 1, i + 1, 5 - 3 * ((i - u) % 5 != 0), t)
            for u in seen
            for t, i in list(enumerate(seen[u]))[part]
        ]
        (folder / name).write_text("".join(rows))
    (folder / "u.user").write_text("".join(f"{u + 1}|{20 + u % 40}|M|job{u % 5}|0\n" for u in range(users)))
    lines = [f"{i + 1}|Film {i}|01-Jan-19{90 + i % 5}||url|{'|'.join(['0'] * 19)}\n" for i in range(items)]
    (folder / "u.item").write_text("".join(lines))
    return folder


def _tastes(user: int, items: int, rng: np.random.Generator) -> list[int]:
    alike = (np.arange(items) - user) % 5 == 0
    weight = np.where(alike, 20.0, 1.0)
    return [int(i) for i in rng.choice(items, 17, replace=False, p=weight / weight.sum())]


def pictures(folder: Path) -> Path:
    """Stripes that lie, stand, or are not there."""
    from PIL import Image

    rng = np.random.default_rng(0)
    wave = np.sin(np.arange(16) * 1.5)
    patterns = {"lying": wave[:, None] * np.ones(16), "plain": np.zeros((16, 16)), "standing": wave * np.ones((16, 1))}
    for part, n in (("train", 48), ("test", 16)):
        for name, pattern in patterns.items():
            (folder / part / name).mkdir(parents=True)
            for i in range(n):
                pixels = 128 + 60 * pattern[:, :, None] + rng.normal(0, 25, (16, 16, 3))
                picture = Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).resize((32, 32))
                picture.save(folder / part / name / f"{i:03}.png")
    return folder


def test_word2vec(tmp_path: Path) -> None:
    found, control = script("word2vec", JUDGED=100, EPOCHS=1, DIM=16, BATCH_SIZE=256).run(topics(tmp_path / "text"))
    assert found > 2 * control


def test_mnist_mlp(tmp_path: Path) -> None:
    assert script("mnist_mlp", HIDDEN=(32,)).run(digits(tmp_path))["acc1"] > 0.8


def test_matchnet_and_its_item_vectors(tmp_path: Path) -> None:
    module = script("matchnet", EPOCHS=12, BATCH_SIZE=128, DIM=16)
    found, popular = module.run(films(tmp_path), tmp_path / "items.parquet")
    assert found > 1.3 * popular
    written = pq.read_table(tmp_path / "items.parquet")
    assert written.column_names == ["item_id", "item_vector", "bad_row"]
    vectors = np.array(written["item_vector"].to_pylist())
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert vectors.shape == (100, module.WIDTH)


def test_nce(tmp_path: Path) -> None:
    found, popular = script("nce", EPOCHS=12, BATCH_SIZE=64, DIM=16).run(films(tmp_path))
    assert found > 1.3 * popular


@pytest.mark.parametrize("name", ["two_emb", "din"])
def test_ratings(tmp_path: Path, name: str) -> None:
    found, baseline = script(name, EPOCHS=8, BATCH_SIZE=64).run(films(tmp_path))
    assert found > baseline + 0.1


def test_mmoe() -> None:
    result = script("mmoe", EPOCHS=1).run()
    assert result["income"] > 0.84
    assert result["never married"] > 0.85


def test_resnet(tmp_path: Path) -> None:
    result = script("resnet_cifar", WIDTH=4, BATCH_SIZE=16, EPOCHS=6, DENSE=hps.Momentum(lr=0.02)).run(
        pictures(tmp_path)
    )
    assert result["acc1"] > 0.8
    assert result["acc5"] == 1.0  # there are three classes


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mnist_mlp", "has no train-images-idx3-ubyte"),
        ("matchnet", r"has no ua.base: unpack https://files.grouplens.org"),
        ("resnet_cifar", "has no folder train"),
    ],
)
def test_missing_data_says_where_to_get_it(name: str, says: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    with pytest.raises(SystemExit, match=says):
        script(name).main()
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(SystemExit, match="python examples/"):
        script(name).main()


# the real data


@pytest.mark.full
@pytest.mark.parametrize("name", ["two_emb", "din"])
@needs("ml-100k.tar.xz")
def test_real_ratings(real, name: str) -> None:
    found, baseline = script(name).run(real("ml-100k"))
    assert found > 0.75
    assert found > baseline + 0.05


@pytest.mark.full
@needs("ml-100k.tar.xz")
def test_real_films(real, tmp_path: Path) -> None:
    found, popular = script("nce").run(real("ml-100k"))
    assert found > popular * 1.1
    found, popular = script("matchnet").run(real("ml-100k"), tmp_path / "items.parquet")
    assert found > popular * 1.1


@pytest.mark.soak
@needs("text8_head.tar.xz")
def test_real_text(real) -> None:
    found, control = script("word2vec").run(real("text8_head") / "text8.split.head")
    assert found > 1.2 * control


@pytest.mark.soak
@needs("mnist.tar.xz")
def test_real_digits(real) -> None:
    assert script("mnist_mlp").run(real("mnist"))["acc1"] >= 0.97


@pytest.mark.soak
@needs("cifar10_jpg.tar.xz")
def test_real_pictures(real) -> None:
    result = script("resnet_cifar").run(real("cifar10_jpg"))
    assert result["acc1"] > 0.35
    assert result["acc5"] > 0.8


@needs("ml-100k.tar.xz")
@pytest.mark.full
def test_movielens_as_it_came(tmp_path: Path, real) -> None:
    module = script("online", PASS_ROWS=10_000)
    assert module.run(module.write_passes(real("ml-100k"), tmp_path / "passes"), tmp_path / "model") > 0.65
    assert (tmp_path / "model" / "passes.svg").exists()


def test_ratings_become_passes_in_the_order_of_time(tmp_path: Path) -> None:
    """Made-up ratings in the files' own formats: what comes later lies in a later pass."""
    module = script("online", PASS_ROWS=3)
    (tmp_path / "u.user").write_text("1|24|M|artist|1\n2|53|F|other|2\n")
    flags = "|".join(["0"] * 18 + ["1"])
    (tmp_path / "u.item").write_text(f"7|Film (1995)|01-Jan-1995||url|{flags}\n", encoding="latin-1")
    times = (880_000_000, 875_000_000, 890_000_000, 876_000_000)
    (tmp_path / "u.data").write_text("".join(f"{1 + n % 2}\t7\t{n + 2}\t{time}\n" for n, time in enumerate(times)))
    module.write_passes(tmp_path, tmp_path / "passes")
    first, second = sorted((tmp_path / "passes").rglob("*.csv"))
    assert (first.parent.name, second.parent.name) == ("199709", "199803")
    assert first.read_text().splitlines()[1:] == [
        "2,7,50s,F,other,1995,1,0",
        "2,7,50s,F,other,1995,1,1",
        "1,7,20s,M,artist,1995,1,0",
    ]
