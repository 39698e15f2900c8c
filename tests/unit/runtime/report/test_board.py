"""What a notice board keeps of trainings, and how a terminal shows it."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest

from heterps.runtime.report import board
from heterps.runtime.report.board import Board, Notice, news_of, thinned
from heterps.runtime.report.board_screen import board_screen, run_line, sparkline
from heterps.runtime.report.occupancy import HeldTable, Occupancy
from heterps.runtime.report.progress import Progress
from heterps.screen import Screen


def report(samples: int = 64, **rest: Any) -> Progress:
    given: dict[str, Any] = {
        "epoch": 1, "epochs": 2, "batches": 1, "samples": samples, "seconds": 1.0, "samples_per_s": 640.0, "loss": 0.5,
        "metrics": {"auc": 0.75, "by_slot": {"a": 1.0}}, "busy": {"io": 0.5}, "queues": {"read ahead": 2},
        "tables": (HeldTable(0, "server-0", "deep", 1000, 64_000),), **rest,
    }  # fmt: skip
    return Progress(**given)


def begun(name: str = "ctr", run: str = "1", driver: str = "client", at: float = 100.0) -> tuple[Board, Notice]:
    found, notice = Board(), Notice(run, name, driver, at, ["batches of 64"], "<svg/>")
    found.begin(notice)
    return found, notice


def text_of(state: Any) -> str:
    console = Screen(file=io.StringIO(), width=100)
    console.print(board_screen(state))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_report_becomes_plain_values_that_json_can_say() -> None:
    news = news_of(report(loss=math.nan, valid={"auc": math.inf, "bad_rows": 3}))
    assert json.loads(json.dumps(news, allow_nan=False)) == news
    assert news["loss"] is None
    assert (news["metrics"], news["valid"]) == ({"auc": 0.75}, {"auc": None, "bad_rows": 3})
    assert news["tables"] == [{"host": 0, "worker": "server-0", "table": "deep", "rows": 1000, "bytes": 64_000}]


def test_nothing_on_a_board_grows_without_bound() -> None:
    found, _ = begun()
    for i in range(2000):
        found.take("1", news_of(report(i, moves=(f"worker {i} joins",))), float(i))
    (run,) = found.state(0.0)["runs"]
    assert board.MOST_POINTS / 2 <= len(run["points"]) <= board.MOST_POINTS
    assert (run["points"][0]["at"], run["points"][-1]["at"]) == (0.0, 1999.0)
    assert [event["words"] for event in run["events"]][-1] == "worker 1999 joins"
    assert len(run["events"]) == board.MOST_EVENTS
    for i in range(100):
        found.begin(Notice(f"another {i}", "x", "d", 0.0))
    assert len(found.state(0.0)["runs"]) == board.MOST_RUNS


def test_trainings_that_are_over_make_room_before_those_that_go_on() -> None:
    found, _ = begun()
    for i in range(board.MOST_RUNS):
        found.begin(Notice(f"another {i}", "x", "d", 0.0))
        found.end(f"another {i}", "done", "", 0.0)
    assert [run["run"] for run in found.state(0.0)["runs"]][-1] == "1", "the oldest, but it goes on"


def test_thinned_points_keep_the_first_and_the_newest() -> None:
    assert thinned([1, 2, 3], 3) == [1, 2, 3]
    assert thinned([1, 2, 3, 4], 3) == [1, 3, 4]
    assert thinned([1, 2, 3, 4, 5, 6], 4) == [1, 3, 5, 6]


def test_cuts_moves_and_faults_are_told_once() -> None:
    found, notice = begun()
    found.take("1", news_of(report(cut="cuts/1", moves=("server-1 is lost",), bad_rows=2)), 1.0)
    found.take("1", news_of(report(cut="cuts/1", bad_rows=2)), 2.0)
    found.take("1", news_of(report(cut="cuts/2", bad_rows=5)), 3.0)
    assert [(event["at"], event["kind"], event["words"]) for event in notice.events] == [
        (1.0, "move", "server-1 is lost"),
        (1.0, "cut", "cuts/1"),
        (1.0, "fault", "2 rows of input could not be used"),
        (3.0, "cut", "cuts/2"),
        (3.0, "fault", "3 rows of input could not be used"),
    ]


def test_a_driver_that_is_gone_takes_only_what_it_trained() -> None:
    found, _ = begun()
    found.begin(Notice("2", "other", "another client", 0.0))
    found.begin(Notice("3", "over", "client", 0.0))
    found.end("3", "done", "", 5.0)
    found.lose("client", 6.0)
    assert {run["run"]: run["state"] for run in found.state(0.0)["runs"]} == {"1": "lost", "2": "training", "3": "done"}
    found.take("unknown", news_of(report()), 7.0)  # of one that went off the board


def test_the_next_training_of_a_session_goes_on_in_its_curve() -> None:
    found, _ = begun()
    found.take("1", news_of(report()), 101.0)
    found.end("1", "done", "", 102.0)
    found.begin(Notice("1", "ctr", "client", 200.0))
    found.take("1", news_of(report()), 201.0)
    (run,) = found.state(0.0)["runs"]
    assert (run["began"], run["state"], run["reports"], [point["at"] for point in run["points"]]) == (
        100.0, "training", 2, [101.0, 201.0],
    )  # fmt: skip


def test_a_terminal_shows_everything_that_was_told() -> None:
    found, _ = begun()
    assert "no run yet" in text_of(Board().state(0.0))
    found.take("1", news_of(report(moves=("server-1 joins",), staleness=1.5, valid={"auc": 0.7})), 101.0)
    shown = text_of(found.state(102.0))
    for part in ("ctr", "training", "epoch 1/2", "64 samples", "640", "0.5000", "0.7500", "valid auc", "busy io 50 %",
                 "read ahead 2", "staleness 1.5", "deep", "1,000", "server-1 joins", "batches of 64"):  # fmt: skip
        assert part in shown, part
    assert "silent for 30 s" in text_of(found.state(131.0))
    found.lose("client", 132.0)
    assert "lost | its driver is gone" in text_of(found.state(133.0))


def test_a_line_says_how_it_goes_and_how_it_ended() -> None:
    found, _ = begun("evil\x1b[2J")
    assert run_line(found.state(0.0)["runs"][0]) == "evil\\x1b[2J: no report yet"
    found.take("1", news_of(report()), 1.0)
    assert run_line(found.state(0.0)["runs"][0]).startswith("evil\\x1b[2J: epoch 1/2 | 64 samples | 640/s")
    found.end("1", "failed", "RunError: no", 2.0)
    assert run_line(found.state(0.0)["runs"][0]).startswith("evil\\x1b[2J: failed: RunError: no | epoch 1/2")


@pytest.mark.parametrize(
    ("values", "expected"), [([], ""), ([None], ""), ([1, 1], "▁▁"), ([0, None, 7], "▁ █"), ([0, 1, 2, 3], "▁▃▆█")]
)
def test_sparklines(values: list[float | None], expected: str) -> None:
    assert sparkline(values) == expected


def test_a_host_that_moved_is_counted_once_and_queues_are_of_one_report() -> None:
    told = Occupancy()
    told.add([HeldTable(0, "a", "deep", 1, 2)], {"io a": {"read ahead": 1}})
    told.add([HeldTable(0, "b", "deep", 3, 4)], {"io a": {"read ahead": 2}, "io b": {"read ahead": 5}})
    assert told.tables == (HeldTable(0, "b", "deep", 3, 4),)
    assert told.take_queues() == {"read ahead": 7}
    assert told.take_queues() == {}
