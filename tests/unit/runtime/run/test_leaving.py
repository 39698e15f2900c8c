"""Workers asked to leave: who is chosen, what is refused, and that they are gone when the run has let them go."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import heterps as hps
from heterps.errors import ClusterError, RunError
from heterps.protocol.words.events import WorkerLeaving
from heterps.runtime.batch.reading import Reading
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.run.arrivals import Arrivals
from heterps.runtime.run.leaving import Leaving
from heterps.runtime.run.scaling import ask_to_scale, workers_by_role
from heterps.testing.engine_contract import plan, same, tables, trained
from heterps.testing.small_model import data

pytestmark = pytest.mark.xdist_group("dask")


class Present:
    """Stands for the attendance of a run: two servers and three io workers, named by their addresses."""

    def __init__(self) -> None:
        servers, readers = {f"s{n}": ("server",) for n in range(2)}, {f"i{n}": ("io",) for n in range(3)}
        self.pools = {**servers, **readers}

    def name(self, worker: str) -> str:
        return worker


def asked(**wanted: int) -> tuple[Leaving, list[Any]]:
    arrivals, attendance = Arrivals(), Present()
    client: Any = None
    leaving = Leaving(client, attendance, arrivals, {"servers": ("server",), "io": ("io",)}, {"servers": 1, "io": 1})  # type: ignore[arg-type]
    leaving.scale(wanted)
    return leaving, [arrivals.get_nowait() for _ in range(arrivals.qsize())]


def test_the_newest_by_name_are_asked_once() -> None:
    leaving, told = asked(servers=1, io=2)
    assert told == [WorkerLeaving("s1"), WorkerLeaving("i2")]
    with pytest.raises(ClusterError, match="there are 2 of 3 io"):
        leaving.scale({"io": 3})


def test_who_is_needed_stays_until_another_comes() -> None:
    """Others retire them: the run asks those that it can do without, in its turn."""
    leaving, _ = asked()
    arrivals, present = leaving._arrivals, leaving._attendance
    leaving.want(["s0", "s1", "unknown"])
    assert arrivals.get_nowait() == WorkerLeaving("s0")
    assert arrivals.empty(), "one server is needed"
    leaving.look()
    assert arrivals.empty()
    present.pools["s2"] = ("server",)
    leaving.look()
    assert arrivals.get_nowait() == WorkerLeaving("s1")
    leaving.want(["s1"])
    assert arrivals.empty(), "asked once"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [({"servers": 0}, "at least 1"), ({"io": 4}, "there are 3 of 4 io: start more"), ({"gpus": 1}, "servers or io")],
)
def test_what_cannot_be_is_refused_and_nobody_is_asked(wanted: dict[str, int], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        asked(**wanted)


def test_a_server_and_a_reader_leave_a_run_without_a_cut_and_the_bits_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    with hps.launch(plan(lanes=2), engine="inline", mode="sync") as session:
        wanted = trained(session, epochs=6)
        with pytest.raises(RunError, match="no workers"):
            session.scale(io=1)
    left = threading.Event()
    read = Reading.batch

    def unhurried(self: Reading, n: int) -> Any:
        left.wait(0.5)  # so that the run does not end before they have left, however busy the machine is
        return read(self, n)

    monkeypatch.setattr(Reading, "batch", unhurried)
    made = plan(lanes=2, shard_hosts=2, workers=2)
    with (
        local_cluster({"server": 2, "io": 2}) as client,
        hps.launch(made, client=client, mode="sync", report_s=0.0) as session,
    ):
        with pytest.raises(RunError, match="in the loop"):
            session.scale(io=1)
        reports = session.train(data(), epochs=6)
        next(reports)
        ask_to_scale(client, {"servers": 1})  # as another process would
        session.scale(io=1)
        samples = 0
        for progress in reports:
            samples = progress.samples
            if workers_by_role(client) == {"servers": 1, "io": 1, "compute": 0}:
                left.set()
        assert left.is_set()
        assert samples == 6 * 1500
        assert same(tables(session), wanted)
