"""Two pools that read: both do, and workers of each have as many batches in flight as their pool."""

from dataclasses import replace
from fractions import Fraction

import pytest
from distributed import get_worker

import heterps as hps
from heterps.planner.plan import Share
from heterps.protocol.client.state import ClientState
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.cluster.plan_commands import workers_of
from heterps.runtime.run.roles import depths_on, roles_for, workers_for
from tests import zoo

pytestmark = pytest.mark.xdist_group("dask")


def plan() -> hps.Plan:
    """Wide & Deep, read by a fast worker and by a slow one."""
    made = zoo.staged(zoo.graph("wide_deep"))
    io, gpu = made.pools
    first, second = made.stages
    first = replace(first, also=(Share("slow", 1, Fraction(1, 4)),))
    depths = {"io": 5, "slow": 2}
    return replace(
        made,
        stages=(first, second),
        pools=(io, replace(io, name="slow"), gpu),
        lanes=2,
        depth=5,
        depths=depths,
        mode=hps.Async(depth=5),
    )


@pytest.fixture
def in_flight(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[tuple[int, int]]]:
    """By worker: the depth of an attempt, and the batches that it has in flight before it begins another one."""
    found: dict[str, set[tuple[int, int]]] = {}
    may_begin = ClientState._may_begin

    def watched(client: ClientState) -> bool:
        begins = may_begin(client)
        if begins:
            where = found.setdefault(str(get_worker().name), set())
            where.add((client.mode.in_flight, len(client._units) + 1))
        return begins

    monkeypatch.setattr(ClientState, "_may_begin", watched)
    return found


def rows(made: hps.Plan) -> hps.Dataset:
    """Sixty batches in ten Splits."""
    return replace(zoo.data(made.graph, 60 * zoo.BATCH), split_cost=6 * zoo.BATCH)


def depths(found: dict[str, set[tuple[int, int]]]) -> dict[str, int]:
    for seen in found.values():
        assert all(flying <= depth for depth, flying in seen)
    return {worker: depth for worker, seen in found.items() for depth in {depth for depth, _ in seen}}


def test_workers_are_as_deep_as_their_pool(in_flight: dict[str, set[tuple[int, int]]]) -> None:
    made = plan()
    with hps.launch(made, device="fake", report_s=1e9) as session:  # in a cluster that is made to measure
        assert session.fit(rows(made)).samples == 60 * zoo.BATCH
        assert len(session.predict(rows(made))) == 60 * zoo.BATCH
    assert depths(in_flight) == {"io-0": 5, "slow-0": 2}


def test_a_depth_that_a_user_gives_is_that_of_all_pools(in_flight: dict[str, set[tuple[int, int]]]) -> None:
    made = plan()
    with (
        local_cluster(workers_for(made)) as client,
        hps.launch(made, client=client, device="fake", mode="async:3", report_s=1e9) as session,
    ):
        session.fit(rows(made))
    assert depths(in_flight) == {"io-0": 3, "slow-0": 3}


def test_pools_of_the_plan_that_are_one_pool_of_the_cluster_are_no_deeper_than_either() -> None:
    made = plan()
    named, by_role = roles_for(made), roles_for(made, {"server", "io", "gpu"})
    assert depths_on(made, named) == made.depths
    assert depths_on(made, by_role) == {"io": 2}
    assert by_role.of({"slow"}) == set()
    assert named.of({"slow"}) == {"io"}
    assert named.by_name()["io"] == ("io", "slow")


def test_commands_start_both_pools_by_name() -> None:
    made = plan()
    assert workers_of(made) == {"server": 1, "io": 1, "slow": 1, "gpu": 1}
    assert workers_of(replace(made, depths={})) == {"server": 1, "io": 2, "gpu": 1}
