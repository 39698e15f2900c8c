"""A run that is left while its shard hosts are still loading: whatever each has loaded by then, nothing is mixed."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import heterps as hps
from heterps.errors import RunError
from heterps.protocol.words import instructions as do
from heterps.protocol.words.events import CopyLost
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.workers.host_actor import HostActor
from heterps.runtime.workers.shard_host import ShardHost
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data

pytestmark = pytest.mark.xdist_group("dask")
TWO = plan(shard_hosts=2)


@pytest.fixture(scope="module")
def two_servers() -> Iterator[Client]:
    with local_cluster({"server": 2, "io": 1}) as client:
        yield client


@pytest.fixture
def one_host_waits(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Shard host 1 begins nothing until the event is set."""
    go, good = threading.Event(), HostActor.begin

    def begin(actor: HostActor, *args: Any) -> Any:
        if actor.host == 1:
            go.wait(30)
        return good(actor, *args)

    monkeypatch.setattr(HostActor, "begin", begin)
    return go


def made(folder: Path) -> Any:
    """Train with cuts; return the predictions of the model that is there then, and those after one more pass."""
    with hps.launch(TWO, engine="inline", mode="sync", checkpoint=folder) as session:
        session.fit(data())
    with hps.launch(TWO, engine="inline", mode="sync", resume=folder) as session:
        session.fit(data(), epochs=2)
        return session.predict(data())


def test_a_run_left_before_it_has_loaded_its_cut_is_taken_up_by_the_next(
    two_servers: Client, tmp_path: Path, one_host_waits: threading.Event
) -> None:
    expected = made(tmp_path)
    with hps.launch(TWO, two_servers, mode="sync", resume=tmp_path, report_s=0.01) as session:
        left = session.train(data(), epochs=2)
        next(left)  # of what the cut has, at most: host 1 has not begun
        threading.Timer(0.1, one_host_waits.set).start()  # the host answers while it is being closed
        left.close()  # type: ignore[attr-defined]
        session.fit(data(), epochs=2)
        assert (session.predict(data()) == expected).all()


@pytest.fixture
def torn(monkeypatch: pytest.MonkeyPatch) -> Callable[[hps.Session], None]:
    """Leaves a run while its hosts return to a cut: one has, the others have not."""

    def tear(session: hps.Session) -> None:
        engine: Any = session.engine
        good = ShardHost.deliver

        def deliver(host: ShardHost, message: Any, folder: str = "") -> None:
            if host.host == 0 or not isinstance(message, do.Rewind | do.CreateHost):
                good(host, message, folder)

        reports = session.train(data(), epochs=50)
        while next(reports).batches < 3:
            pass
        with monkeypatch.context() as patch:
            patch.setattr(ShardHost, "deliver", deliver)
            state = engine._training.driver.state
            engine._training.driver.handle(CopyLost(next(iter(state.fleet.places))))
            reports.close()  # type: ignore[attr-defined]

    return tear


def test_a_run_left_while_it_returns_to_its_cut_leaves_the_cut(
    tmp_path: Path, torn: Callable[[hps.Session], None]
) -> None:
    with hps.launch(TWO, engine="inline", mode="sync", checkpoint=tmp_path, report_s=0) as session:
        session.fit(data())
        torn(session)
        last = session.fit(data(), epochs=1)
        found = session.predict(data())
    assert last.samples == 1500
    with hps.launch(TWO, engine="inline", mode="sync") as session:
        session.fit(data())
        session.engine.passes += 50  # the ones that were left
        session.fit(data())
        assert (session.predict(data()) == found).all()


def test_a_run_left_while_it_returns_to_its_beginning_leaves_fresh_tables(
    torn: Callable[[hps.Session], None],
) -> None:
    with hps.launch(TWO, engine="inline", mode="sync", report_s=0) as session:
        fresh = session.predict(data())
        torn(session)
        assert (session.predict(data()) == fresh).all()
        assert session.fit(data()).done


def test_tables_that_are_gone_for_good_are_not_trained_on(torn: Callable[[hps.Session], None], tmp_path: Path) -> None:
    with hps.launch(TWO, engine="inline", mode="sync", report_s=0) as session:
        session.fit(data())
        session.save(tmp_path)
        torn(session)
        with pytest.raises(RunError, match="not whole, a shard host was lost with its rows"):
            session.fit(data())
        session.load(tmp_path)
        assert session.fit(data()).done
