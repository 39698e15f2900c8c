"""Streams over small passes, in this thread: what is measured, saved, passed over, and gone on with."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import heterps as hps
from heterps.errors import CheckpointError, DataError
from heterps.runtime.cuts.saved_model import SavedModel
from heterps.streaming import FolderSource, Nothing, Portion, read_log
from heterps.tables.specs.accessor import Counters
from tests.unit.streaming.small_stream import (
    COLUMNS,
    HEAD,
    logged,
    published,
    read_clicks,
    rows,
    run,
    session,
    write_days,
    write_pass,
)


def states(out: Path) -> list[str]:
    """Return day, name and state of each pass in the log."""
    seen = {row["sequence"]: f"{row['day'][-1:]} {row['pass']} {row['state']}" for row in logged(out)}
    return list(seen.values())


def values(out: Path, measure: str, which: str = "value") -> list[float]:
    return [row[which] for row in logged(out) if row["measure"] == measure and not row["group"]]


def test_each_pass_is_measured_before_it_is_trained_on(tmp_path: Path) -> None:
    pattern, metrics = write_days(tmp_path / "logs", days=1), ["auc", "copc", "gauc:user", "slot_auc", "slot_copc"]
    reports = run(pattern, tmp_path / "out", metrics=metrics)
    passes = [read_clicks(str(path)) for path in sorted((tmp_path / "logs/20261101").iterdir())]
    with session() as other:
        wanted = []
        for data in passes:
            wanted.append(other.evaluate(data, ["auc", "copc"]))
            other.fit(data.shuffle("local"))
        last = other.evaluate(passes[-1], ["auc"])["auc"]
    assert values(tmp_path / "out", "auc") == [each["auc"] for each in wanted]
    assert values(tmp_path / "out", "copc") == [each["copc"] for each in wanted]
    assert last > wanted[-1]["auc"]
    found = reports[-1]
    assert (found.rows, found.state, found.measured["auc", ""]) == (150, "trained", wanted[-1]["auc"])
    assert 0.3 < found.loss < 0.7
    for by_slot in ("slot_auc", "slot_copc"):
        assert {group for name, group in found.measured if name == by_slot} == {"user", "item"}
    assert found.measured["slot_copc", "user"] == found.measured["copc", ""]  # every row has a user
    assert found.totals["slot_copc", "user"] == found.totals["copc", ""]
    assert values(tmp_path / "out", "rows", "total") == [150.0, 300.0, 450.0]
    # Totals: exact where states have a size, else the mean over passes.
    with session() as other:
        states_, metric = [], hps.metrics.AUC()
        for data in passes:
            states_.append(other.measure(data, ["auc"]).states["auc"])
            other.fit(data.shuffle("local"))
    assert found.totals["auc", ""] == metric.result(hps.metrics.merge_all(metric, states_))
    gauc = values(tmp_path / "out", "gauc:user")
    assert found.totals["gauc:user", ""] == pytest.approx(sum(gauc) / 3)
    assert (tmp_path / "out" / "passes.svg").read_text().count("<text") > 5
    assert read_log(tmp_path / "out").num_rows == len(logged(tmp_path / "out"))


@pytest.mark.full
def test_what_is_exported_is_what_the_checkpoint_holds_and_dumps_are_of_the_model_before(tmp_path: Path) -> None:
    pattern, out = write_days(tmp_path / "logs", days=1, passes=2, rows=40), tmp_path / "out"
    row = {"user": "u3", "item": "i4", "age": 33}
    run(pattern, out, export=True, dump=["user", "prediction"])
    with session() as again:
        again.load(out)
        again.form = SavedModel.read(out).form
        wanted = again.predict([row])
    assert hps.Predictor(out / "export")(row) == pytest.approx(wanted, abs=1e-6)
    first, second = (pq.read_table(out / "dump" / f"0000000{n}.parquet") for n in (1, 2))
    users = [line.split(",")[0] for line in (tmp_path / "logs/20261101/01.csv").read_text().splitlines()[1:]]
    assert second["user"].to_pylist() == users
    labels = [int(line[-1]) for line in (tmp_path / "logs/20261101/01.csv").read_text().splitlines()[1:]]
    metric = hps.metrics.AUC()
    state = metric.update(metric.init(), second["prediction"].to_numpy(), np.array(labels))
    assert metric.result(state) == values(out, "auc")[1]
    assert len(first) == 40


def test_a_day_ends_with_shrink_and_base_and_others_see_only_what_is_kept(tmp_path: Path) -> None:
    pattern = write_days(tmp_path / "logs", days=2, passes=2, rows=40)
    reports = run(pattern, tmp_path / "out", delta_every=2, checkpoint_every=9)
    assert [each.events for each in reports] == [
        (),
        ("delta 00000001",),
        ("day 20261101 ended", *reports[2].events[1:2], "base 00000001"),
        ("delta 00000002",),
    ]
    assert "rows dropped" in reports[2].events[1]
    assert [(each["folder"], each["sequence"]) for each in published(tmp_path / "out")] == [
        *(("delta/00000001", 2), ("base/00000001", 2), ("delta/00000002", 4))
    ]
    with session() as again:
        again.load(tmp_path / "out")
        counters = again.engine.each_shard(_unseen_days)[0]
    assert set(counters) <= {0.0, 1.0}
    assert 1.0 in counters  # rows that the second day did not show


def _unseen_days(shard: Any, host: int) -> list[float]:
    (group,) = (each for each in shard.groups.values() if each.spec.accessor)
    return [float(v) for part in group.partitions for v in Counters(*part.counters(part.live())).unseen_days]


def test_late_empty_missing_and_repeated_passes(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    pattern = write_days(logs, days=3, passes=2, rows=40)
    (logs / "20261101/00.csv").unlink()
    (logs / "20261102/00.csv").write_text("")
    (logs / "20261102/01.csv").write_text(HEAD + "\n")
    (logs / "20261103/01.csv").unlink()
    lists = {"days": [f"2026110{n}" for n in (1, 2, 3, 4)], "passes": ["00", "01"], "give_up_s": 0.0}
    run(FolderSource(pattern, **lists), out)
    first = ["1 00 missing", "1 01 trained", "2 00 empty", "2 01 empty", "3 00 trained", "3 01 missing"]
    assert states(out) == [*first, "4 00 missing", "4 01 missing"]
    assert [each["kind"] for each in published(out)] == ["base", "base"]  # of four days that ended two are kept
    # What comes after all is late; what was there already is not taken again.
    write_pass(logs / "20261101/00.csv", 0, 40)
    write_pass(logs / "20261103/00.csv", 99, 40)
    reports = run(FolderSource(pattern, **lists), out)
    assert [(each.day[-1], each.name, each.state, each.rows) for each in reports] == [("1", "00", "late", 40)]
    write_pass(logs / "20261103/01.csv", 0, 40)
    assert [each.state for each in run(FolderSource(pattern, **lists), out, late="skip")] == ["skipped late"]


def test_an_unreadable_pass_stops_the_stream_by_name_or_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pattern = write_days(tmp_path / "logs", days=1, rows=40)
    bad = tmp_path / "logs/20261101/01.csv"
    bad.write_text(HEAD + "\n" + "u1,i1,30,what\n" * 5)
    with pytest.raises(DataError, match=r"pass 20261101 01: .*5 rows"):
        run(pattern, tmp_path / "out")
    assert states(tmp_path / "out") == ["1 00 trained"]
    reports = run(pattern, tmp_path / "out", unreadable="skip")
    assert [each.state for each in reports] == ["unreadable", "trained"]
    assert "20261101 01 cannot be read and is left out" in caplog.text
    # Before anything was trained on it is the model that does not fit: that is never passed over.
    (tmp_path / "logs/20261101/00.csv").write_text("other,columns\n1,2\n")
    with pytest.raises(DataError, match="pass 20261101 00"):
        run(pattern, tmp_path / "new", unreadable="skip")


def test_an_alarm_runs_a_command_when_it_begins_to_hold(tmp_path: Path) -> None:
    pattern = write_days(tmp_path / "logs", days=1, rows=60)
    code = (
        "import os; open(os.environ['OUT'], 'a').write(os.environ['HETERPS_PASS'] + os.environ['HETERPS_ALARM'] + ';')"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUT", str(tmp_path / "rung"))
        reports = run(pattern, tmp_path / "out", alarms=["auc>0", "total auc<0"], on_alarm=[sys.executable, "-c", code])
    assert (tmp_path / "rung").read_text() == "00auc>0;"
    assert [len(each.alarms) for each in reports] == [1, 0, 0]
    with pytest.raises(DataError, match="no alarm"):
        run(pattern, tmp_path / "out", alarms=["auc is low"])


class Recorder:
    """A source of ready passes that notes what is asked of it."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths, self.committed, self.fetched = paths, [], [threading.Event() for _ in paths]

    def poll(self, after: Any) -> Portion | Nothing:
        at = 0 if after is None else after
        return Portion(at + 1, "", str(at)) if at < len(self.paths) else Nothing("more")

    def fetch(self, portion: Portion, folder: Path) -> tuple[str, ...]:
        path = shutil.copy(self.paths[int(portion.name)], folder)
        self.fetched[int(portion.name)].set()
        return (str(path),)

    def commit(self, position: Any) -> None:
        self.committed.append(position)

    def close(self) -> None:
        self.closed = True


def test_the_next_pass_is_fetched_while_one_trains_and_commits_follow_checkpoints(tmp_path: Path) -> None:
    source = Recorder([write_pass(tmp_path / f"{n}.csv", n, 40) for n in range(3)])

    def read(paths: Any) -> hps.Dataset:
        following = int(Path(paths[0]).stem) + 1
        assert following == 3 or source.fetched[following].wait(60), "the next pass was not fetched meanwhile"
        return read_clicks(paths)

    run(source, tmp_path / "out", read=read, checkpoint_every=2)
    assert source.committed == [2, 3]
    assert source.closed
    assert list((tmp_path / "out/stream/rows").iterdir()) == []
    # A run that was lost before it committed does so when it is started again.
    again = Recorder(source.paths)
    assert run(again, tmp_path / "out") == []
    assert again.committed == [3]


@pytest.mark.full
def test_a_stream_that_is_left_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    pattern, options = write_days(tmp_path / "logs", days=2, passes=2, rows=60), {"checkpoint_every": 3}
    run(pattern, tmp_path / "straight", **options)
    for _ in range(2):
        with session() as left:
            for _ in hps.stream(left, pattern, tmp_path / "out", schema=COLUMNS, **options):
                break
    run(pattern, tmp_path / "out", **options)
    assert logged(tmp_path / "out") == logged(tmp_path / "straight")
    assert rows(tmp_path / "out") == rows(tmp_path / "straight")


@pytest.mark.full
def test_nothing_in_the_log_depends_on_when_reports_come(tmp_path: Path) -> None:
    pattern = write_days(tmp_path / "logs", days=1, passes=1, rows=300)
    losses = []
    for name, seconds in (("often", 0.0), ("once", 60.0)):
        with session(report_s=seconds) as one:
            (report,) = hps.stream(one, pattern, tmp_path / name, schema=COLUMNS)
        losses.append(report.loss)
    assert logged(tmp_path / "often") == logged(tmp_path / "once")
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_what_was_begun_is_taken_again_as_it_was(tmp_path: Path) -> None:
    """A pass that sorts before one that was begun already does not come before it after a crash."""
    logs, options = tmp_path / "logs", {"schema": COLUMNS, "checkpoint_every": 9}
    pattern = f"{logs}/{{day}}/{{pass}}.csv"
    write_pass(logs / "1/05.csv", 5, 40)
    with session() as left:
        for _ in hps.stream(left, FolderSource(pattern), tmp_path / "out", follow=True, **options):
            break  # lost before its checkpoint
    assert not (tmp_path / "out/checkpoint").exists()
    write_pass(logs / "1/04.csv", 4, 40)
    run(pattern, tmp_path / "out", checkpoint_every=9)
    assert states(tmp_path / "out") == ["1 05 trained", "1 04 trained"]


def test_a_stream_can_be_stopped_while_it_waits(tmp_path: Path) -> None:
    pattern, asked = write_days(tmp_path / "logs", days=1, passes=1, rows=40), []
    with session() as running:
        options = {"schema": COLUMNS, "stop": lambda: bool(asked), "poll_s": (0.01, 0.02)}
        reports = hps.stream(running, FolderSource(pattern), tmp_path / "out", follow=True, **options)
        for report in reports:
            assert report.state == "trained"
            asked.append(True)
    assert json.loads((tmp_path / "out/stream/journal.jsonl").read_text() or "0") == 0


def test_mistakes_are_named(tmp_path: Path) -> None:
    pattern, out = write_days(tmp_path / "logs", days=1, passes=1, rows=40), tmp_path / "out"
    run(pattern, out)
    with session(seed=5) as other, pytest.raises(CheckpointError, match=r"has another seed \(0, now 5\)"):
        next(iter(hps.stream(other, pattern, out)))
    with session() as other:
        other.load(out)
        with pytest.raises(CheckpointError, match="has trained before"):
            next(iter(hps.stream(other, pattern, tmp_path / "new")))
    with session() as other:
        other.fit(read_clicks(f"{tmp_path}/logs/20261101/00.csv"))
        other.save(tmp_path / "trained")
    with session() as other, pytest.raises(CheckpointError, match="says nothing of a stream"):
        next(iter(hps.stream(other, pattern, tmp_path / "trained")))
    with session() as begun:
        (report,) = hps.stream(begun, pattern, tmp_path / "begun", schema=COLUMNS, start=tmp_path / "trained")
    assert report.measured["auc", ""] > 0.6  # it knew the pass already
    for wrong in ({"late": "drop"}, {"checkpoint_every": 0}, {"unreadable": "x"}, {"on_alarm": "ls"}):
        with session() as other, pytest.raises(DataError, match=r"=|alarm"):
            hps.stream(other, pattern, tmp_path / "new", **wrong)
    with pytest.raises(DataError, match="no column 'nobody'"):
        run(pattern, tmp_path / "new", metrics=["gauc:nobody"])
