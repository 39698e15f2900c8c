"""Whoever retires workers that a session uses waits until they are free, or is told in words why they are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import dask
import pytest
from distributed import Client, Future
from distributed.core import Status

from heterps.errors import ClusterError
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.cluster.letting_go import HEARD_TOPIC, LEAVE_TOPIC, let_workers_go

pytestmark = pytest.mark.xdist_group("dask")


class Anything:
    """Stands for an actor of a run."""


@pytest.fixture
def client() -> Iterator[Client]:
    limits = {"heterps.timeouts.connect": "0.3s", "heterps.timeouts.leave": "1s"}
    with local_cluster({"server": 1, "io": 2}) as client, dask.config.set(limits):
        let_workers_go(client)
        let_workers_go(client)  # each run does
        yield client


def address(client: Client, name: str) -> str:
    return next(a for a, w in client.scheduler_info(n_workers=-1)["workers"].items() if w["name"] == name)


def seat(client: Client, name: str) -> Future:
    actor = client.submit(Anything, actor=True, workers=[address(client, name)], key=f"heterps-Anything-{name}")
    assert actor.exception() is None  # it is there
    return actor


def names(client: Client) -> set[str]:
    return {w["name"] for w in client.scheduler_info(n_workers=-1)["workers"].values()}


def test_workers_without_actors_go_at_once_however_they_are_named(client: Client) -> None:
    assert list(client.retire_workers([io := address(client, "io-0")])) == [io]
    client.retire_workers(names=["io-1"])
    assert names(client) == {"server-0"}
    with pytest.raises(TypeError, match="mutually exclusive"):
        client.retire_workers(workers=["a"], names=["b"])


def test_nobody_takes_over_where_nothing_is_trained(client: Client) -> None:
    held = seat(client, "server-0")
    with pytest.raises(ClusterError, match=r"server-0 .*session that is not training.*let it train, or save and close"):
        client.retire_workers(names=["server-0"])
    assert "server-0" in names(client)
    held.release()


def test_a_run_that_hears_is_waited_for(client: Client) -> None:
    held, asked = [], []

    def heard(event: tuple[float, Any]) -> Any:
        asked.append(event[1]["workers"])
        threading.Timer(0.6, held[0].release).start()  # later than one that nobody hears would be given up
        return client.log_event(HEARD_TOPIC, event[1]["question"])

    io = address(client, "io-0")
    client.subscribe_topic(LEAVE_TOPIC, heard)
    held.append(seat(client, "io-0"))  # behind the subscription, on the same way to the scheduler
    assert list(client.retire_workers([io, address(client, "io-1")])) != []
    assert asked == [[io]], "only what has something of a run"
    assert names(client) == {"server-0"}


def test_a_cluster_object_gives_names_for_addresses_and_waits_as_well(client: Client) -> None:
    """Dask's own handler finds nobody under them, and the cluster ends the process."""
    held, asked = [], []

    def heard(event: tuple[float, Any]) -> Any:
        asked.append(event[1]["workers"])
        held[0].release()
        return client.log_event(HEARD_TOPIC, event[1]["question"])

    io = address(client, "io-1")
    client.subscribe_topic(LEAVE_TOPIC, heard)
    held.append(seat(client, "io-1"))
    client.cluster.scale(2)  # the last of its workers goes
    assert client.cluster.sync(client.cluster._correct_state) is None
    assert asked == [[io]]
    assert names(client) == {"server-0", "io-0"}


def test_a_run_that_cannot_is_named_and_the_worker_stays(client: Client) -> None:
    client.subscribe_topic(LEAVE_TOPIC, lambda event: client.log_event(HEARD_TOPIC, event[1]["question"]))
    held = seat(client, "io-0")
    with pytest.raises(ClusterError, match=r"io-0 .*did not let go within 1 s.*start others first"):
        client.retire_workers(names=["io-0"])
    assert "io-0" in names(client)
    held.release()


def test_a_cluster_closes_also_while_somebody_holds_its_workers() -> None:
    with dask.config.set({"heterps.timeouts.connect": "0.3s"}), local_cluster({"server": 1, "io": 1}) as client:
        cluster = client.cluster
        let_workers_go(client)
        other = Client(cluster.scheduler.address, set_as_default=False)  # open until the cluster has closed
        held = seat(other, "server-0")
    assert cluster.status is Status.closed
    other.close()
    assert held.status != "finished"
