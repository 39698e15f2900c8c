"""What a notebook shows of values: HTML and pictures that are well-formed and say what matters."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import heterps as hps
from heterps.runtime.report.history import Point
from heterps.runtime.report.learning_curve import draw_curve
from heterps.tables import DenseSpec, GroupSpec, Shard, TableSpec
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data, graph


def shown(value: Any) -> str:
    html: str = value._repr_html_()
    ElementTree.fromstring(f"<page>{html}</page>")
    return html


def test_graph_plan_and_tables() -> None:
    assert "Graph of" in shown(graph())
    assert "<td" in shown(graph())
    assert "weight 14x8, bias 8" in shown(graph())
    assert f"batches of {plan().batch_size}" in shown(plan())
    assert "rows a second forecast" in shown(hps.plan(graph(), hps.Hardware.local(), batch_size=64))
    shard = Shard([GroupSpec("g", (TableSpec("<t>", 4, hps.SGD(0.1)),))], [DenseSpec("w", (2,), hps.SGD(0.1))])
    assert "&lt;t&gt;" in shown(shard)


def test_a_session_and_its_reports(tmp_path: Path) -> None:
    with hps.launch(plan(), engine="inline", report_s=0) as session:
        assert "Session, open" in shown(session)
        reports = list(session.train(data(400), 2, data(200, seed=8)))
    assert "Session, closed" in shown(session)
    last = reports[-1]
    assert [p.samples for p in last.history.points] == [p.samples for p in reports]
    assert "valid auc" in shown(last)
    assert "valid auc" not in shown(reports[0]), "a report shows what was known then"
    assert last.plot(tmp_path / "curve.svg") == (tmp_path / "curve.svg").read_text()


@pytest.mark.parametrize(
    "points",
    [
        [],
        [Point(0, float("nan"), {}, {}, 0.0)],
        [Point(10, 0.5, {"auc": 0.7}, {}, 1.0)],
        [Point(10, 0.5, {"auc": 0.7}, {"rmse": 900.0}, 1.0), Point(20, 0.5, {"auc": 0.7}, {"rmse": float("inf")}, 1.0)],
        [Point(i, 1.0 / i, {f"m{k}": 10.0**k for k in range(9)}, {}, 1.0) for i in range(1, 9)],
    ],
    ids=["none", "nan", "one", "flat", "many"],
)
def test_any_numbers_can_be_drawn(points: list[Point]) -> None:
    drawn = draw_curve(points)
    ElementTree.fromstring(drawn)
    assert "nan" not in drawn
    assert "inf" not in drawn.replace("Learning", "")
