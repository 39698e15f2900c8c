"""Plans whose reading, pulling and computing lie on pools of their own."""

import numpy as np
import pytest

import heterps as hps
from heterps.runtime.cluster.in_process import local_cluster
from tests import raising

pytestmark = pytest.mark.xdist_group("dask")
NEVER = 1 << 60


def predicted(session: hps.Session) -> np.ndarray:
    list(session.train(raising.data(), epochs=2))
    found = session.predict(raising.data())
    assert isinstance(found, np.ndarray)
    return found


APART, NEXT = ("io", "pull", "compute"), ("io", "compute", "compute")


@pytest.mark.parametrize(("stages", "on"), [(3, APART), (4, APART), (4, NEXT), (5, APART), (5, NEXT)])
def test_they_give_the_bits_of_one_thread(stages: int, on: tuple[str, ...]) -> None:
    graph = raising.graph(NEVER)
    with hps.launch(raising.plan(graph, 1, lanes=2), engine="inline", mode="sync") as session:
        expected = predicted(session)
    pools = {"server": 2, "io": 2, "pull": 2, "compute": 2}
    with local_cluster(pools) as client:
        plan = raising.plan(graph, stages, on, lanes=2, shard_hosts=2)
        with hps.launch(plan, client=client, mode="sync") as session:
            assert np.array_equal(predicted(session), expected)
        with hps.launch(plan, client=client, mode="async") as session:
            last = list(session.train(raising.data(), epochs=2))[-1]
    assert last.samples == 4000
