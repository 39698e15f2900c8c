"""The example scripts reach what they promise."""

import importlib.util
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.shared_data import SHARED, needs

ROOT = Path(__file__).parents[3]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_adult_demo(capsys: pytest.CaptureFixture[str]) -> None:
    script("adult_wide_deep").main()
    out = capsys.readouterr().out
    auc = float(out.split("adult.test: AUC ")[1].split(",")[0])
    assert auc >= 0.905


@pytest.mark.full
def test_adult_with_the_methods_of_scikit_learn(capsys: pytest.CaptureFixture[str]) -> None:
    script("adult_estimator").main()
    out = capsys.readouterr().out
    assert float(out.split("adult.test: AUC ")[1].split(",")[0]) >= 0.905


@pytest.fixture(scope="module")
def criteo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("criteo")
    with tarfile.open(SHARED / "criteo_80k.tar.xz") as archive:
        member = next(m for m in archive.getmembers() if m.isfile() and m.name.endswith(".txt"))
        member.name = "sample.tsv"
        archive.extract(member, folder, filter="data")
    return folder


@needs("criteo_80k.tar.xz")
@pytest.mark.parametrize(
    ("model", "auc"),
    [
        pytest.param("wide_deep", 0.768, marks=pytest.mark.full),
        pytest.param("dlrm", 0.765, marks=pytest.mark.soak),
        pytest.param("dcn_v2", 0.765, marks=pytest.mark.soak),
    ],
)
def test_criteo(criteo: Path, model: str, auc: float) -> None:
    module = script("criteo")
    train, test = module.divide(criteo / "sample.tsv", criteo)
    assert module.run(model, train, test)["auc"] >= auc
