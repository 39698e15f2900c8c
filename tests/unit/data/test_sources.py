"""Generators, images, reading ahead, rows in memory, permuted features, formats by name."""

import gzip
import pickle
import struct
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heterps.data import (
    BadRows,
    Dataset,
    Number,
    Schema,
    Split,
    adult,
    arrays,
    csv,
    dense,
    feature_importance,
    frame,
    generator,
    idx,
    image_folder,
    label,
    moments,
    open_dataset,
    ragged,
    register_reader,
    slots_shuffle,
    sparse,
    standardised,
    weight,
)
from heterps.data.core.formats import READERS
from heterps.data.core.read_ahead import Ahead, OneAhead
from heterps.errors import DataError, UnknownKindError
from heterps.ragged import Ragged
from tests.shared_data import SHARED, needs


def values(data: Dataset, name: str = "y", batch_size: int = 7, **options: int) -> list:
    return [
        v
        for split in data.splits()
        for b in data.read(split, batch_size=batch_size, **options)
        for v in b[name].tolist()
    ]


SCHEMA = Schema.of(label("y"), sparse("ids", shape=(2,)), dense("x", shape=(2, 2)), ragged("tags"), weight("w"))


def test_a_generator_runs_in_a_process_of_its_own() -> None:
    def make_rows(shard: int):  # type: ignore[no-untyped-def]
        print("printing does no harm")
        for i in range(1500):
            yield {"y": shard, "ids": [i, 2**63 + i], "x": [[i, 0], [0, i]], "tags": range(i % 3), "w": 0.5}

    data = generator(make_rows, SCHEMA, shards=2)
    assert len(data.splits()) == 2
    for split in data.splits():
        batches = list(data.read(split, batch_size=1000, ring=2))
        assert [batch.size for batch in batches] == [1000, 500]
        assert batches[1]["ids"][3].tolist() == [1003, 2**63 + 1003]
        assert batches[1]["x"][3].tolist() == [[1003, 0], [0, 1003]]
        assert batches[1]["tags"].tolist()[:3] == [[0], [0, 1], []]
        assert set(batches[0]["y"].tolist()) == {split.index}
    (rest,) = data.read(data.splits()[1], batch_size=1000, start=1)
    assert rest["ids"][0, 0] == 1000


def test_a_generator_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("def rows(shard):\n    yield {'y': 7}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert values(generator("mine:rows", Schema.of(label("y")))) == [7.0]


def test_a_generator_that_fails_says_where() -> None:
    def broken(shard):  # type: ignore[no-untyped-def]
        yield {"y": 1}
        raise RuntimeError("the moon is full")

    def lacking(shard):  # type: ignore[no-untyped-def]
        yield {"z": 1}

    def negative(shard):  # type: ignore[no-untyped-def]
        yield {"ids": -4}

    def silent(shard):  # type: ignore[no-untyped-def]
        time.sleep(60)
        yield {}

    with pytest.raises(DataError, match=r"(?s)broken.*ended with code 1.*the moon is full"):
        values(generator(broken, Schema.of(label("y"))))
    with pytest.raises(DataError, match="a row has no column 'y'; it has z"):
        values(generator(lacking, Schema.of(label("y"))))
    with pytest.raises(DataError, match="'ids' holds -4"):
        values(generator(negative, Schema.of(sparse("ids", shape=()))), "ids")
    with pytest.raises(DataError, match="gave no output for 3 s"):
        values(generator(silent, Schema.of(label("y")), timeout=3.0))


def write_idx(path: Path, array: np.ndarray) -> Path:
    raw = struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files(tmp_path: Path, suffix: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (600, 4, 5))
    data = idx(
        write_idx(tmp_path / f"i{suffix}", pixels),
        write_idx(tmp_path / f"l{suffix}", np.arange(600) % 10),
        split_cost=500,
    )
    assert data.schema["x"].shape == (4, 5, 1)
    got = np.array(values(data, "x"), np.float32)
    np.testing.assert_array_equal(got[..., 0], (pixels / 255).astype(np.float32))
    assert values(data) == [i % 10 for i in range(600)]
    flat = idx(tmp_path / f"i{suffix}", tmp_path / f"l{suffix}", flat=True)
    assert flat.schema["x"].shape == (20,)


def test_idx_files_that_do_not_fit(tmp_path: Path) -> None:
    images = write_idx(tmp_path / "i", np.zeros((3, 2, 2)))
    with pytest.raises(DataError, match=r"holds 3 images but .* holds 2 labels"):
        idx(images, write_idx(tmp_path / "l", np.zeros(2)))
    with pytest.raises(DataError, match="is no idx file"):
        idx(images, write_idx(tmp_path / "t.gz", np.zeros(3)).rename(tmp_path / "t"))
    images.write_bytes(images.read_bytes()[:-5])
    with pytest.raises(DataError, match="ends at row 1 although its header promises 3"):
        values(idx(images, write_idx(tmp_path / "l", np.zeros(3))))


@needs("mnist.tar.xz")
def test_mnist(tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(SHARED / "mnist.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    data = idx(tmp_path / "mnist/t10k-images-idx3-ubyte", tmp_path / "mnist/t10k-labels-idx1-ubyte")
    assert values(data, batch_size=1000)[:5] == [7, 2, 1, 0, 4]


def test_image_folders(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("cat", (255, 0, 0)), ("dog", (0, 0, 255))):
        (tmp_path / name).mkdir()
        for i in range(3):
            image.new("RGB", (8, 6), colour).save(tmp_path / name / f"{i}.png")
    (tmp_path / "cat" / "3.jpg").write_bytes(b"no picture")
    data, bad = image_folder(tmp_path, size=(4, 5)), BadRows()
    (batch,) = data.read(data.splits()[0], batch_size=10, bad=bad)
    assert data.classes == ("cat", "dog")
    assert batch["y"].tolist() == [0, 1, 0, 1, 0, 1]
    assert batch["x"].shape == (6, 4, 5, 3)
    assert batch["x"][1, 2, 2].tolist() == [0, 0, 1]
    assert (bad.count, Path(bad.first[0].source).name) == (1, "3.jpg")
    with pytest.raises(DataError, match="no such folder"):
        image_folder(tmp_path / "none")
    with pytest.raises(DataError, match="no subfolders"):
        image_folder(tmp_path / "cat")


def test_reading_ahead_gives_the_same_batches_and_stops_when_left() -> None:
    data = arrays({"y": np.arange(1000)}).shuffle(window=100)
    (split,) = data.splits()
    plain = [b["y"].tolist() for b in data.read(split, batch_size=9)]
    assert [b["y"].tolist() for b in Ahead(lambda ring: data.read(split, batch_size=9, ring=ring))] == plain
    before = threading.active_count()
    batches = Ahead(lambda ring: data.read(split, batch_size=9, start=2, ring=ring), depth=3)
    assert next(batches)["y"].tolist() == plain[2]
    assert threading.active_count() == before + 1
    batches.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("rows", [0, 1, 9, 10, 21])
def test_readers_know_of_the_end_before_the_last_batch_is_taken(rows: int) -> None:
    data = arrays({"y": np.arange(rows)})

    def read(ring: int):  # type: ignore[no-untyped-def]
        return data.read(Split(0, 0, data.pieces(100)), batch_size=10, ring=ring)

    expected = [batch["y"].tolist() for batch in read(1)]
    with closing(OneAhead(read(3))) as one:
        seen = [(batch["y"].tolist(), one.ended) for batch in one]
        assert seen == [(values, i == len(expected) - 1) for i, values in enumerate(expected)]
        assert one.ended
    with closing(Ahead(read, depth=3)) as several:  # begins at once, and has room for all
        deadline = time.monotonic() + 60
        while not several.ended and time.monotonic() < deadline:
            time.sleep(0.001)
        assert several.ended
        assert [batch["y"].tolist() for batch in several] == expected
    with pytest.raises(StopIteration):
        next(several)


def test_reading_ahead_raises_where_the_read_would(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n2\n3\nx\n")
    data = csv(tmp_path / "a.csv", Schema.of(label("y", Number("n"))), columns=["n"]).on_bad("error")
    batches = Ahead(lambda ring: data.read(data.splits()[0], batch_size=1, ring=ring))
    assert [next(batches)["y"][0] for _ in range(3)] == [1, 2, 3]
    with pytest.raises(DataError, match="line 4"):
        next(batches)


@pytest.mark.parametrize("scope", ["none", "local", "global"])
def test_persisted_rows_are_parsed_once_and_stay_the_same(tmp_path: Path, scope: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{i}\n" for i in range(300)) + "bad\n")
    plain = csv(path, Schema.of(label("y", Number("n"))), columns=["n"], split_cost=400).shuffle(scope, window=50)  # type: ignore[arg-type]
    kept = plain.persist()
    expected, splits = values(plain), kept.splits()
    assert values(kept) == expected
    path.write_text("7\n" * 10)
    bad = BadRows()
    again = [v for split in splits for b in kept.read(split, batch_size=7, bad=bad) for v in b["y"].tolist()]
    assert again == expected
    assert bad.count == 1
    kept.release()
    assert sum(b.size for split in kept.splits(seed=1) for b in kept.read(split, batch_size=7)) == 10


def test_a_memory_budget_drops_the_longest_unused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("".join(f"{i}\n" for i in range(1000)))
    kept = csv(tmp_path / "a.csv", Schema.of(label("y", Number("n"))), columns=["n"], split_cost=500).persist(
        memory_bytes=1
    )
    kept.load_in_background().join()
    assert values(kept) == list(range(1000))


def test_permuted_features_leave_the_others_alone() -> None:
    lists = [[i] * (i % 4) for i in range(200)]
    data = arrays({"ids": np.stack([np.arange(200)] * 3, 1), "y": np.arange(200), "tags": Ragged.from_lists(lists)})
    mixed = slots_shuffle(data, [("ids", 1), ("tags", 0)], seed=5)
    ids, tags = np.array(values(mixed, "ids")), values(mixed, "tags")
    assert ids[:, 0].tolist() == ids[:, 2].tolist() == list(range(200)) == values(mixed)
    assert sorted(ids[:, 1]) == list(range(200)) != ids[:, 1].tolist()
    assert tags != lists
    assert sorted(tags) == sorted(lists)
    with pytest.raises(DataError, match=r"'ids' has elements 0 \.\. 2, not 3"):
        slots_shuffle(data, [("ids", 3)])


def test_importance_finds_the_feature_that_matters() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((500, 3))
    data = arrays({"x": x, "y": x[:, 1]})

    def score(which: Dataset) -> float:
        (batch,) = which.read(which.splits()[0], batch_size=500)
        return -float(np.abs(batch["x"][:, 1] - batch["y"]).mean())

    found = feature_importance(data, score)
    assert found[0].feature == "x[1]"
    assert [item.drop for item in found][1:] == [0.0, 0.0]
    assert found[0].drop > 0.1
    assert feature_importance(adult("test"), lambda d: 0.0, ["x"])[2].feature == "capital_gain"


def test_standardising_by_the_moments_of_the_splits(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = np.stack([rng.normal(5, 3, 400), np.full(400, 2.0)], 1)
    np.savetxt(tmp_path / "a.csv", table, delimiter=",")
    fields = Schema.of(dense("x", Number("a", mean=1.0, std=2.0), Number("b")))
    data = csv(tmp_path / "a.csv", fields, columns="ab", split_cost=4000)
    parts = [moments(data, split) for split in data.splits()]
    assert len(parts) > 1
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    got = np.array(values(standardised(data, found=total), "x"))
    np.testing.assert_allclose(got[:, 0], (table[:, 0] - table[:, 0].mean()) / table[:, 0].std(), atol=1e-4)
    assert set(got[:, 1]) == {0.0}
    with pytest.raises(DataError, match="not made of numbers"):
        standardised(arrays({"x": np.zeros((2, 2))}))


def test_formats_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.txt").write_text("\t".join(["0"] * 40) + "\n")
    (tmp_path / "t.tsv").write_text("a\ty\n1\t2\n")
    (tmp_path / "s.log").write_text("click:1 2:3\n")
    (tmp_path / "u.txt").write_text("a,y\n1,2\n")
    (tmp_path / "v.bin").write_text("what\n")
    assert open_dataset(tmp_path / "c.txt").schema["ids"].shape == (26,)
    assert open_dataset(tmp_path / "t.tsv").schema.names == ("x", "y")
    assert open_dataset(tmp_path / "s.log").schema.names == ("ids", "y")
    assert open_dataset(tmp_path / "u.txt").schema.names == ("x", "y")
    assert open_dataset("adult:test").schema == adult("test").schema
    with pytest.raises(DataError, match=r"cannot tell the format of .*v\.bin"):
        open_dataset(tmp_path / "v.bin")
    with pytest.raises(UnknownKindError, match="no data format is called 'orc'; there are adult, criteo"):
        open_dataset(tmp_path / "v.bin", "orc")
    monkeypatch.setitem(READERS, "orc", test_formats_by_name)  # of this module: it may be replaced, and is restored
    register_reader("orc", lambda paths: adult("test"))
    assert open_dataset(tmp_path / "v.bin", "orc") == adult("test")


def test_splits_survive_json() -> None:
    data = adult()
    for split in data.splits(3, 4):
        assert Split.from_json(split.to_json()) == split
        assert split.pass_ == 3


def double(shard: int):  # type: ignore[no-untyped-def]
    yield {"y": 2 * shard}


def test_every_dataset_is_a_value_that_workers_can_get(tmp_path: Path) -> None:
    pixels = write_idx(tmp_path / "i", np.zeros((3, 2, 2)))
    (tmp_path / "s.log").write_text("click:1 2:3\n")
    pq.write_table(pa.table({"y": [1.0]}), tmp_path / "p.parquet")
    everything: list[Dataset] = [
        adult(),
        adult().persist().shuffle("global"),
        slots_shuffle(adult(), [("x", 1)]),
        open_dataset(tmp_path / "s.log"),
        open_dataset(tmp_path / "p.parquet"),
        frame(pd.DataFrame({"y": [1.0, 2.0]})),
        arrays({"y": np.arange(3)}),
        idx(pixels, write_idx(tmp_path / "l", np.arange(3))),
        generator(double, Schema.of(label("y")), shards=3),
    ]
    for data in everything:
        twin = pickle.loads(pickle.dumps(data))
        assert twin.splits(1, 2) == data.splits(1, 2)
        assert values(twin, batch_size=4096) == values(data, batch_size=4096)


def test_remote_files_by_url() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    text = "".join(f"{i}\n" for i in range(500)).encode()
    memory.pipe({"/clicks/a.csv": text, "/clicks/b.csv.gz": gzip.compress(text)})
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"y": np.arange(9.0)}), buffer)
    memory.pipe("/clicks/c.parquet", buffer.getvalue().to_pybytes())
    data = csv("memory://clicks/*.csv*", Schema.of(label("y", Number("n"))), columns=["n"], split_cost=600)
    assert len(data.splits()) > 2
    assert values(data) == [*range(500), *range(500)]
    assert values(open_dataset("memory://clicks/c.parquet")) == list(range(9))
    with pytest.raises(DataError, match="no such file: memory://clicks/z"):
        csv("memory://clicks/z*.csv")
    with pytest.raises(DataError, match="no such file: memory://clicks/none"):
        csv("memory://clicks/none.csv", Schema.of(label("y", Number("n"))), columns=["n"]).splits()


def test_reading_overlaps_computing() -> None:
    """The thread reads batch n + 1 while the caller still holds batch n: seen by the order of events alone."""
    asked: list[int] = []
    second = threading.Event()

    def read(ring: int):  # type: ignore[no-untyped-def]
        data = arrays({"y": np.arange(30)})
        for batch in data.read(data.splits()[0], batch_size=10, ring=ring):
            asked.append(batch.key.n)
            if batch.key.n == 1:
                second.set()
            yield batch

    batches = Ahead(read, depth=1)
    first = next(batches)
    assert second.wait(timeout=60)  # nobody asked for it yet
    assert first["y"].tolist() == list(range(10))
    assert [batch.key.n for batch in batches] == [1, 2]
    assert asked == [0, 1, 2]
