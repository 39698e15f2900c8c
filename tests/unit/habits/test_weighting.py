"""Classes that weigh more, wherever a model is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import heterps as hps
from heterps.cli import main
from heterps.data.core.class_weighted import class_weighted
from heterps.errors import DataError, GraphError
from heterps.habits.weighting import class_weights
from heterps.testing.engine_contract import same, tables as tables_of
from heterps.testing.small_model import columns, graph


def rows(**more: Any) -> hps.Dataset:
    found = columns(600)
    found["y"][100:] = np.where(np.arange(500) % 5, 0.0, found["y"][100:])  # the class 1 is rare
    return hps.arrays({**found, **more}, split_cost=200)


def tables(data: hps.Dataset, **options: Any) -> Any:
    weighted = hps.Plan.fused(hps.weighted(graph()), batch_size=64)
    with hps.launch(weighted, engine="inline", mode="sync") as session:
        session.fit(data, epochs=2, **options)
        return tables_of(session)


def by_hand(weights: dict[float, float]) -> hps.Dataset:
    y = np.asarray(rows().columns["y"])  # type: ignore[attr-defined]
    return rows(w=np.where(y == 1, weights[1], weights[0]).astype(np.float32))


def test_a_class_weighs_as_a_column_of_weights_says() -> None:
    found = tables(rows(), class_weight={1: 4.0})
    assert same(found, tables(by_hand({0: 1.0, 1: 4.0})))
    assert not same(found, tables(rows(), class_weight={1: 1.0}))


def test_balanced_classes_weigh_the_same_together() -> None:
    y = np.asarray(rows().columns["y"])  # type: ignore[attr-defined]
    ones = int(y.sum())
    even = {0: len(y) / (2 * (len(y) - ones)), 1: len(y) / (2 * ones)}
    assert same(tables(rows(), class_weight="balanced"), tables(by_hand(even)))


def test_weights_of_rows_and_classes_are_multiplied_and_evaluation_needs_none() -> None:
    half = np.full(600, 0.5, np.float32)
    assert same(tables(rows(w=half), class_weight={0: 2.0, 1: 8.0}), tables(by_hand({0: 1.0, 1: 4.0})))
    tables(rows(), class_weight={1: 4.0}, valid=rows())


def test_a_resumed_run_with_other_weights_is_refused(tmp_path: Path) -> None:
    plan = hps.Plan.fused(hps.weighted(graph()), batch_size=64)
    with hps.launch(plan, engine="inline", checkpoint=tmp_path) as session:
        session.fit(rows(), class_weight={1: 4.0})
    with (
        hps.launch(plan, engine="inline", resume=tmp_path) as session,
        pytest.raises(hps.HeterpsError, match=r"(?s)this run is not the one that made the cut.*class weights"),
    ):
        session.fit(rows(), class_weight={1: 5.0})


def test_what_cannot_be_weighed_is_said_before_anything_runs() -> None:
    with (
        hps.launch(hps.Plan.fused(graph(), batch_size=64), engine="inline") as session,
        pytest.raises(GraphError, match=r"takes no weight of its rows.*hps.launch\(hps.weighted\(graph\)\)"),
    ):
        session.train(rows(), class_weight={1: 2.0})
    with hps.launch(hps.Plan.fused(hps.weighted(graph()), batch_size=64), engine="inline") as session:
        with pytest.raises(DataError, match="class_weight names 7, which is no class; there are 0, 1"):
            session.train(rows(), class_weight={7: 2.0})
        with pytest.raises(DataError, match="'balancd': give 'balanced', weights by class, or None"):
            session.train(rows(), class_weight="balancd")  # type: ignore[arg-type]
        with pytest.raises(DataError, match="the weight -1"):
            session.train(rows(), class_weight={1: -1})


def test_classes_without_rows_get_a_weight_that_is_a_number() -> None:
    found = class_weights("balanced", np.arange(3), np.array([3.0, 0.0, 1.0]))
    assert found is not None
    assert np.isfinite(found).all()


def test_a_weighted_dataset_is_read_from_the_middle_and_mixed_as_the_one_below() -> None:
    below = rows().shuffle("global")
    data = class_weighted(below, "y", "w", {0.0: 1.0, 1.0: 3.0})
    assert data.splits(1, 5) == below.splits(1, 5)
    split = data.splits(1, 5)[1]
    whole, part = (list(data.read(split, batch_size=64, seed=5, start=start, ring=9)) for start in (0, 2))
    assert [batch.key for batch in whole[2:]] == [batch.key for batch in part]
    for a, b in zip(whole[2:], part, strict=True):
        assert np.array_equal(a["w"], b["w"])
        assert np.array_equal(a["w"], np.where(np.asarray(a["y"]) == 1, np.float32(3), np.float32(1)))


def test_the_command_takes_weights(tmp_path: Path) -> None:
    lines = [f"{i % 4 == 0:d},c{i % 7},{i % 5}" for i in range(200)]
    (tmp_path / "clicks.csv").write_text("\n".join(["click,colour,size", *lines]) + "\n")
    given = ["train", "wide_deep", "--data", str(tmp_path / "clicks.csv"), "--label", "click", "--engine", "inline"]
    losses = []
    for words in ([], ["--class-weight", "1=1"], ["--class-weight", "balanced"], ["--class-weight", "1=9"]):
        result = CliRunner().invoke(main, [*given, *words])
        assert result.exit_code == 0, result.output
        losses.append(result.output.partition("loss ")[2][:6])
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3
    result = CliRunner().invoke(main, [*given, "--class-weight", "much"])
    assert (result.exit_code, "write CLASS=WEIGHT, such as 1=10" in result.output) == (1, True)
