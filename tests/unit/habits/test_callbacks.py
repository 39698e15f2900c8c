"""Whoever listens is told in order, may end training, and is told its end in any case."""

from pathlib import Path
from typing import Any

import pytest

import heterps as hps
from heterps.errors import RunError
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data, graph


class Heard(hps.Callback):
    def __init__(self, stop_after: int = 99) -> None:
        self.words: list[str] = []
        self.cuts: list[str] = []
        self.stop_after = stop_after

    def on_begin(self, session: Any) -> None:
        self.words.append("begin")

    def on_report(self, progress: hps.Progress) -> None:
        self.words.append("report")

    def on_pass(self, progress: hps.Progress) -> bool:
        self.words.append(f"pass {progress.epoch}")
        return progress.epoch >= self.stop_after

    def on_cut(self, progress: hps.Progress) -> None:
        self.cuts.append(progress.cut)

    def on_end(self) -> None:
        self.words.append("end")


@pytest.mark.parametrize("valid", [None, data(200, seed=8)], ids=["", "valid"])
def test_each_pass_is_told_once_with_its_end(valid: Any) -> None:
    heard = Heard()
    with hps.launch(plan(), engine="inline", report_s=1e9) as session:
        for _ in session.train(data(400), 3, valid, callbacks=[heard]):
            pass
    assert heard.words == ["begin", *(w for k in (1, 2, 3) for w in ("report", f"pass {k}")), "end"]


def test_who_says_so_ends_training_and_everyone_is_told() -> None:
    stopping, other = Heard(stop_after=2), Heard()
    with hps.launch(plan(), engine="inline", report_s=1e9) as session:
        *_, last = session.train(data(400), 5, callbacks=[stopping, other])
        assert (last.epoch, last.done, last.samples) == (2, True, 800)
        assert stopping.words == other.words == ["begin", "report", "pass 1", "report", "pass 2", "end"]
        assert session.fit(data(400)).samples == 400, "the session is as good as before"


def test_a_function_is_told_reports_and_what_it_raises_ends_training() -> None:
    seen: list[int] = []
    after = Heard()

    def broken(progress: hps.Progress) -> None:
        seen.append(progress.samples)
        raise ZeroDivisionError("mine")

    with hps.launch(plan(), engine="inline") as session:
        with pytest.raises(ZeroDivisionError, match="mine"):
            session.fit(data(400), callbacks=[broken, after])
        assert after.words[-1] == "end"
        assert session.fit(data(400), callbacks=lambda progress: seen.append(progress.samples)).samples == 400
    assert seen[-1] == 400


def test_leaving_the_loop_is_an_end_too() -> None:
    heard = Heard()
    with hps.launch(plan(), engine="inline", report_s=0) as session:
        for _ in session.train(data(400), 3, callbacks=heard):
            break
    assert heard.words == ["begin", "report", "end"]


def test_a_cut_is_told_once_it_is_whole(tmp_path: Path) -> None:
    heard = Heard()
    with hps.launch(plan(), engine="inline", report_s=0, checkpoint=tmp_path, every_batches=3) as session:
        session.fit(data(1500), callbacks=heard)
    assert len(heard.cuts) >= 2
    assert len(set(heard.cuts)) == len(heard.cuts), "each once"
    assert (Path(heard.cuts[-1]) / "manifest.json").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [(hps.EarlyStopping, r"the class EarlyStopping: write EarlyStopping\(\.\.\.\)"), ([3], "not 3")],
    ids=["class", "number"],
)
def test_what_is_no_callback_is_refused_before_training(given: Any, message: str) -> None:
    with hps.launch(plan(), engine="inline") as session, pytest.raises(RunError, match=message):
        session.train(data(400), callbacks=given)


def test_a_graph_is_planned_by_launch() -> None:
    with hps.launch(graph(), engine="inline", batch_size=64) as session:
        assert session.plan.batch_size == 64
        assert session.plan.forecast is not None
        assert session.fit(data(400)).batches == 7
    with pytest.raises(hps.HeterpsError, match="the plan has batches of"):
        hps.launch(plan(), batch_size=7)
    with pytest.raises(hps.HeterpsError, match="takes a Plan or a Graph, not str"):
        hps.launch("wide_deep")  # type: ignore[arg-type]


def test_a_resumed_training_tells_of_no_pass_that_ended_before_its_cut(tmp_path: Path) -> None:
    ends: list[list[tuple[int, int]]] = []
    for epochs, resume in ((2, None), (4, tmp_path)):
        with hps.launch(plan(), engine="inline", checkpoint=tmp_path, resume=resume) as session:
            ends.append([(each.epoch, each.batches) for each in session.train(data(400), epochs) if each.epoch_done])
    batches = ends[0][0][1]
    assert ends[1] == [(epoch, epoch * batches) for epoch in (2, 3, 4)]  # the last cut is of the second pass
