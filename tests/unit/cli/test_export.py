"""``heterps export``: from a saved model to an exported one, with what float16 and int8 rows cost."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import heterps as hps
from heterps.cli import main


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of made-up shops, saved twice so that there are changes."""
    folder, rng = tmp_path_factory.mktemp("shops"), np.random.default_rng(0)
    lines = [f"{int(shop < 20)},s{shop},{price}" for shop, price in zip(*rng.integers(0, 40, (2, 400)), strict=True)]
    (folder / "shops.csv").write_text("\n".join(["bought,shop,price", *lines, ""]))
    data = hps.csv(folder / "shops.csv", label="bought")
    graph = hps_graph(data)
    with hps.launch(hps.Plan.fused(graph, batch_size=64), engine="inline") as session:
        session.fit(data)
        session.save(folder / "model", kind="changes")
        assert CliRunner().invoke(main, ["export", str(folder / "model"), str(folder / "a")]).exit_code == 0
        session.fit(data)
        session.save(folder / "model", kind="changes")
    return folder


def hps_graph(data: hps.Dataset) -> hps.Graph:
    from heterps.models import wide_deep

    return wide_deep(slots=data.schema["ids"].width, dense=data.schema["x"].width, dim=4, hidden=(8,))


def run(*words: object) -> str:
    done = CliRunner().invoke(main, ["export", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.output


def test_changes_and_what_int8_costs(model: Path) -> None:
    said = run(model / "model", model / "a", "--kind", "changes")
    assert re.search(r"a/00000002: changes on 00000001, \d+ rows of float32 as arrow, dense.onnx, [\d,]+ bytes", said)
    said = run(model / "model", model / "b", "--rows", "int8", "--files", "parquet", "--data", model / "shops.csv")
    assert "rows of int8 as parquet" in said
    found = re.search(r"auc\D+([\d.]+)\D+([\d.]+)\D*?([+-][\d.]+)", said)
    assert found, said
    exact, eighths, difference = map(float, found.groups())
    assert exact > 0.8
    assert abs(exact - eighths) < 0.02
    assert difference == pytest.approx(eighths - exact, abs=2e-5)
    with hps.load(model / "model", engine="inline") as session:
        assert session.evaluate(model / "shops.csv")["auc"] == pytest.approx(exact, abs=1e-5)
    assert sorted(path.name for path in (model / "b").iterdir() if not path.name.startswith(".heterps")) == ["00000001"]


def test_mistakes_are_one_line(model: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["export", str(tmp_path), str(tmp_path / "a")])
    assert (done.exit_code, "is not a saved model" in done.output) == (1, True)
    done = CliRunner().invoke(main, ["export", str(model / "model"), str(tmp_path / "a"), "--kind", "delta"])
    assert (done.exit_code, "a delta replaces rows of an export" in done.output) == (1, True)
