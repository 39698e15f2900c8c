"""The example scripts reach what they promise."""

import importlib.util
import os
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
CRITEO = ROOT.parent / "shared" / "data" / "criteo_80k.tar.xz"


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


@pytest.fixture(scope="module")
def criteo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not CRITEO.exists():
        pytest.skip("the Criteo sample lies outside of the repository (../shared/data) and is not here")
    folder = tmp_path_factory.mktemp("criteo")
    with tarfile.open(CRITEO) as archive:
        member = next(m for m in archive.getmembers() if m.isfile() and m.name.endswith(".txt"))
        member.name = "sample.tsv"
        archive.extract(member, folder, filter="data")
    return folder


@pytest.mark.parametrize(("model", "auc"), [("wide_deep", 0.768), ("dlrm", 0.765), ("dcn_v2", 0.765)])
def test_criteo(criteo: Path, model: str, auc: float) -> None:
    if model != "wide_deep" and "HETERPS_SOAK" not in os.environ:
        pytest.skip("the other models take as long again: make soak")
    module = script("criteo")
    train, test = module.divide(criteo / "sample.tsv", criteo)
    assert module.run(model, train, test)["auc"] >= auc
