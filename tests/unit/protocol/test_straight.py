from collections import Counter

import pytest

from heterps.protocol import Async, BatchKey, Geo, Mode, Phase, RunSpec, Sync
from heterps.protocol.words.decisions import Commit
from heterps.protocol.words.instructions import Finish
from tests.unit.protocol.straight import straight

BATCHES = {0: 3, 1: 0, 2: 5, 3: 1}


def every_key(passes: int) -> list[BatchKey]:
    return [BatchKey(p, split, n) for p in range(passes) for split, count in BATCHES.items() for n in range(count)]


@pytest.mark.parametrize("final_cut", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("mode", [Async(), Async(depth=3, merge=2), Geo(k=2), Geo(k=100)])
def test_every_batch_is_applied_once_on_every_host(mode: Mode, workers: int, final_cut: bool) -> None:
    world = straight(RunSpec(mode=mode, passes=2, hosts=2, shards=4, final_cut=final_cut), BATCHES, workers)
    assert world.run.phase is Phase.FINISHED
    assert isinstance(world.done[-1], Finish)
    for pushes in world.applied.values():
        keys = Counter(BatchKey(p.key.pass_, p.key.split, p.key.n + i) for p in pushes for i in range(p.batches))
        assert keys == Counter(every_key(2))


@pytest.mark.parametrize("lanes", [1, 2, 3, 7])
def test_sync_commits_step_by_step_in_lane_order_whatever_the_workers(lanes: int) -> None:
    histories = []
    for workers in (1, 2, 5):
        world = straight(RunSpec(mode=Sync(), lanes=lanes, passes=2, hosts=2, shards=4), BATCHES, workers)
        assert world.run.phase is Phase.FINISHED
        for commits in world.applied.values():
            assert all(isinstance(commit, Commit) for commit in commits)
            histories.append([(c.position, [(p.lane, p.key) for p in c.pushes]) for c in commits])
    assert all(history == histories[0] for history in histories)
    positions = [position for position, _ in histories[0]]
    assert positions == sorted(set(positions))
    assert sorted(key for _, pushes in histories[0] for _, key in pushes) == every_key(2)
    for (pass_, step), pushes in histories[0]:
        assert [lane for lane, _ in pushes] == sorted(lane for lane, _ in pushes)
        for lane, key in pushes:
            stream = [(s, n) for s in BATCHES if s % lanes == lane for n in range(BATCHES[s])]
            assert stream[step] == (key.split, key.n)
            assert key.pass_ == pass_
