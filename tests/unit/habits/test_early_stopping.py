"""Training ends when nothing got better for so long, and the best model comes back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import heterps as hps
from heterps.errors import RunError
from heterps.habits.improvement import Best
from heterps.runtime.cuts.carried import Carried
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data


class Training:
    """What callbacks see of a session: what its training carries."""

    def __init__(self) -> None:
        self.engine, self.carried = self, Carried()


def report(epoch: int, value: float) -> hps.Progress:
    return hps.Progress(epoch, 9, 1, 1, 1.0, 1.0, 0.5, valid={"logloss": value}, epoch_done=True)


@settings(deadline=None)
@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=12), patience=st.integers(1, 4))
def test_it_ends_where_the_rule_read_aloud_says(values: list[float], patience: int) -> None:
    stop = hps.EarlyStopping("logloss", patience)
    session = Training()
    found = None
    for i, value in enumerate(values):
        stop.on_begin(session)  # as if every pass were resumed
        if stop.on_pass(report(i + 1, value)):
            found = i
            break
    best = [values.index(min(values[: i + 1])) for i in range(len(values))]
    assert found == next((i for i in range(len(values)) if i - best[i] >= patience), None)


@settings(deadline=None)
@given(values=st.lists(st.floats(-1, 1), min_size=1, max_size=12), rising=st.booleans(), least=st.floats(0, 0.5))
def test_the_best_is_never_worse_than_another_by_more_than_what_counts(
    values: list[float], rising: bool, least: float
) -> None:
    best = Best(rising, least)
    for value in values:
        best.take(value)
    sign = 1 if rising else -1
    assert all(sign * (value - best.value) <= least for value in values)


def test_what_is_no_number_is_never_better() -> None:
    best = Best(rising=True)
    assert [best.take(value) for value in (float("nan"), 0.5, float("nan"), 0.6)] == [False, True, False, True]
    assert best.since == 0


def test_a_metric_that_is_not_measured_names_those_that_are() -> None:
    stop = hps.EarlyStopping("gauc")
    stop.on_begin(Training())
    with pytest.raises(RunError, match=r"no metric 'gauc' is measured.*there are loss, auc\. Name it in launch"):
        stop.on_pass(replace(report(1, 0.5), valid={}, metrics={"auc": 0.7, "slot_auc": {}}))


def test_the_best_model_is_saved_and_comes_back(tmp_path: Path) -> None:
    keep = hps.KeepBest(tmp_path / "best", "loss", rising=True)  # of the training, which only falls: the first is best
    states = []
    with hps.launch(plan(), engine="inline", report_s=1e9) as session:
        for _ in session.train(data(400), 3, callbacks=keep):
            states.append(session.predict(data(100)))
        assert not np.array_equal(states[0], states[2])
        np.testing.assert_array_equal(session.predict(data(100)), states[0])
        with hps.load(tmp_path / "best", engine="inline") as saved:
            np.testing.assert_array_equal(saved.predict(data(100)), states[0])


def test_folders_that_cannot_be_written_to_are_refused_before_the_first_batch(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with hps.launch(plan(), engine="inline") as session:
        with pytest.raises(hps.HeterpsError, match="cannot write to the folder"):
            session.fit(data(400), callbacks=hps.KeepBest(tmp_path / "file"))
        assert session.fit(data(400)).samples == 400


@pytest.mark.parametrize("valid", [None, data(100, seed=8)], ids=["training", "valid"])
def test_a_resumed_training_remembers_its_best(valid: hps.Dataset | None, tmp_path: Path) -> None:
    """The first pass is the best: what comes back after the end is its model, and training ends when it would have."""

    def told() -> list[hps.Callback]:
        keep = hps.KeepBest(tmp_path / "best", "loss", rising=True)
        return [hps.EarlyStopping("loss", patience=4, rising=True), keep]

    def launched(**options: Any) -> hps.Session:
        cuts = {"checkpoint": tmp_path / "cuts", "every_batches": 2, **options}
        return hps.launch(plan(), engine="inline", report_s=0.0, **cuts)

    with launched() as session:
        for progress in session.train(data(400), 9, valid, callbacks=told()):
            if progress.epoch == 1:
                first = session.predict(data(100))
            if progress.epoch == 3:
                break
    with launched(resume=tmp_path / "cuts") as session:
        passes = [each.epoch for each in session.train(data(400), 9, valid, callbacks=told()) if each.epoch_done]
        assert passes[0] > 1
        assert passes[-1] == 5
        np.testing.assert_array_equal(session.predict(data(100)), first)
