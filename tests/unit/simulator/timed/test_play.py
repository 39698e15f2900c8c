"""Runs in simulated time against what can be worked out by hand."""

from dataclasses import replace

import pytest

from heterps.errors import PlanError
from heterps.protocol.words.modes import Async, Geo, Mixed, MixedSync, Sync
from heterps.simulator.timed.durations import Crew, Durations, HostTimes, PoolOfWorkers, StageTimes, WorkerTimes
from heterps.simulator.timed.play import Script, play

FAST = PoolOfWorkers(1e12, 1e12)
IDLE = WorkerTimes(0.0, 0.0, 0.0, 0.0, 0.0)
HOSTS = HostTimes("cpu", 1, 1, 0.0, 0.0, 0.0, 0.0, 0.0)


def run(workers=1, kernel=0.03, **rest):
    """Durations of a run that takes nothing but kernels, unless it is said otherwise."""
    stages = (StageTimes((Crew("cpu", workers),), kernel / 3, 2 * kernel / 3),)
    given = {"pools": {"cpu": FAST, "gpu": FAST}, "worker": IDLE, "stages": stages, "hosts": HOSTS, "rows": 10}
    return Durations(**given | {"message_s": 0.0, "start_s": 0.0, "task_s": 0.0} | rest)


def rate(durations, mode=None, splits=(100, 100), **rest):
    return play(durations, Script(mode or Async(2), splits, **rest)).batches_per_second


@pytest.mark.parametrize("mode", [Async(2), Sync(), Geo(5), Mixed(5), MixedSync(5)], ids=lambda mode: mode.name)
def test_a_worker_computes_one_batch_after_another(mode):
    played = play(run(), Script(mode, (20, 20)))
    assert (played.batches, played.rows) == (40, 400)
    assert played.seconds == pytest.approx(40 * 0.03)
    assert played.rows_per_second == pytest.approx(10 / 0.03)
    assert played.busy["stage 0"] == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(
    ("mode", "seconds"),
    [(Geo(5), 4 + 1), (Mixed(5), 8.17), (MixedSync(5), 4 * 2 + 20 * 0.01)],
    ids=["geo", "mixed", "steps"],
)
def test_ranges_are_settled_beside_what_is_pushed(mode, seconds):
    """Each of four takes a second out and one back, each of twenty pushes a hundredth; Geo does two at a time."""
    hosts = replace(HOSTS, settle_bytes=1e6, push_bytes=1e4)
    durations = run(kernel=0.0, hosts=hosts, pools={"cpu": PoolOfWorkers(1e6, 1e9)})
    assert play(durations, Script(mode, (20,))).seconds == pytest.approx(seconds, rel=0.02)


def test_one_batch_alone_is_sent_and_computed_in_the_time_that_it_takes():
    hosts = replace(HOSTS, push_bytes=1e6)
    played = play(run(hosts=hosts, pools={"cpu": PoolOfWorkers(1e8, 1e8)}), Script(Async(2), (1,)))
    assert played.busy["stage 0"] == pytest.approx(0.03 / 0.04, rel=0.05)
    assert played.bytes_per_second["cpu", "cpu"] == pytest.approx(1e6 / 0.04, rel=0.05)


def test_reading_goes_on_beside_computing_on_cores_that_are_free():
    worker = replace(IDLE, read_s=0.03)
    pools = {"cpu": replace(FAST, machine="m")}
    assert rate(run(worker=worker)) == pytest.approx(1 / 0.06, rel=0.05)  # a machine that does one thing at a time
    assert rate(run(worker=worker, pools=pools, machines={"m": 2.0})) == pytest.approx(1 / 0.03, rel=0.05)


def test_workers_share_the_cores_of_a_machine():
    pools = {"cpu": replace(FAST, machine="m")}
    for workers, expected in ((1, 1), (2, 2), (4, 2)):
        found = rate(run(workers, pools=pools, machines={"m": 2.0}), splits=(25,) * 8)
        assert found == pytest.approx(expected / 0.03, rel=0.05)


def test_workers_with_more_cores_take_more_of_a_machine():
    """Four small workers leave three quarters to a large one; those with a machine of their own take all of it."""
    pools = {name: replace(FAST, machine="m", cores=cores) for name, cores in (("small", 1.0), ("large", 12.0))}
    for crews, expected in (((4, 0), 4), ((0, 1), 1), ((4, 1), 5), ((4, 2), 6 * 16 / 28)):
        stages = (StageTimes(tuple(map(Crew, pools, crews)), 0.01, 0.02),)
        found = rate(run(pools=pools | {"cpu": FAST}, machines={"m": 16.0}, stages=stages), splits=(25,) * 24)
        assert found == pytest.approx(expected / 0.03, rel=0.05)
    assert rate(run(pools={"cpu": replace(FAST, cores=12.0), "gpu": FAST})) == pytest.approx(1 / 0.03, rel=0.05)


def test_sending_and_receiving_go_on_at_once():
    hosts = replace(HOSTS, pull_bytes=4e6, push_bytes=2e6)
    pools = {"cpu": PoolOfWorkers(1e8, 1e8)}
    assert rate(run(kernel=0.0, hosts=hosts, pools=pools), Async(8)) == pytest.approx(1 / 0.04, rel=0.05)
    pools = {"cpu": PoolOfWorkers(1e8, 2e7)}
    assert rate(run(kernel=0.0, hosts=hosts, pools=pools), Async(8)) == pytest.approx(1 / 0.2, rel=0.05)


def test_a_link_bounds_each_direction():
    stages = (StageTimes((Crew("cpu", 1),), 0.0, 0.0), StageTimes((Crew("gpu", 2),), 0.0, 0.0, 0.0, 4e6, 2e6))
    links = {frozenset(("cpu", "gpu")): 1e8}
    assert rate(run(stages=stages, links=links), Async(8)) == pytest.approx(1 / 0.04, rel=0.05)


def test_a_slow_sender_keeps_nobody_from_being_heard():
    """What waits at a worker with a tenth of the network is not at its receiver yet, however much it is."""
    stages = (StageTimes((Crew("cpu", 1), Crew("old", 1)), 0.0, 0.0), StageTimes((Crew("gpu", 1),), 0.0, 0.0, 0.0, 1e6))
    pools = {"cpu": PoolOfWorkers(1e8, 1e8), "old": PoolOfWorkers(1e7, 1e7), "gpu": FAST}
    found = rate(run(stages=stages, pools=pools), Async(8), (20,) * 40)
    assert found == pytest.approx(1 / 0.01 + 1 / 0.1, rel=0.1)


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_depth_hides_what_is_on_its_way(depth):
    """The rows of all batches in flight are served at once; an attempt takes answers in the order in which they come,
    so it computes all whose rows are there before it hears that the first of them was pushed.
    """
    pools = {"cpu": replace(FAST, machine="m")}
    durations = run(kernel=0.01, hosts=replace(HOSTS, serve_s=0.03), pools=pools, machines={"m": 16.0})
    assert rate(durations, Async(depth)) == pytest.approx(depth / (0.03 + depth * 0.01), rel=0.05)


def test_in_sync_all_wait_for_the_slowest_and_in_async_nobody_does():
    splits = (50, 50, 50, 50)
    assert rate(run(2), Sync(), splits, lanes=2, slow={0: 3.0}) == pytest.approx(2 / 0.09, rel=0.05)
    assert rate(run(2), Async(2), splits, slow={0: 3.0}) == pytest.approx((1 + 1 / 3) / 0.03, rel=0.1)


def test_the_end_of_a_pass_waits_for_the_last_split():
    played = play(run(2), Script(Async(2), (10, 30)))
    assert played.tail_s == pytest.approx(20 * 0.03, rel=0.1)
    assert played.seconds == pytest.approx(30 * 0.03, rel=0.1)
    twice = play(run(2), Script(Async(2), (10, 30), passes=2))
    assert twice.seconds == pytest.approx(2 * played.seconds, rel=0.1)


def test_credits_give_slower_stage_workers_less():
    stages = (StageTimes((Crew("cpu", 2),), 0.0, 0.0), StageTimes((Crew("gpu", 1), Crew("gpu", 1, 3.0)), 0.01, 0.02))
    played = play(run(stages=stages), Script(Async(4), (100, 100)))
    each = [sum(bar.unit == unit for bar in played.bars if bar.stage == 1) for unit in (0, 1)]
    assert sum(each) == 200
    assert 1.8 < each[0] / each[1] < 4.0
    assert played.batches_per_second > 0.8 * (1 + 1 / 3) / 0.03


def test_three_stages_pass_batches_on_and_back():
    of = lambda pool, units: StageTimes((Crew(pool, units),), 0.01, 0.02)  # noqa: E731
    durations = run(stages=(of("cpu", 2), of("gpu", 2), of("cpu", 2)))
    played = play(durations, Script(Async(6), (60, 60)))
    assert played.batches_per_second == pytest.approx(2 / 0.03, rel=0.1)
    for stage in (0, 1, 2):
        assert played.busy[f"stage {stage}"] > 0.85


def test_who_is_in_the_middle_gives_slower_workers_behind_less():
    """Two of the last stage are ten times as slow: in turn, each would get a sixth of the batches, and all wait."""
    of = lambda *crews: StageTimes(crews, 0.01, 0.02)  # noqa: E731
    stages = (of(Crew("cpu", 4)), of(Crew("gpu", 4)), of(Crew("cpu", 4), Crew("cpu", 2, 10.0)))
    played = play(run(stages=stages), Script(Async(6), (200,) * 8))
    slow = sum(bar.stage == 2 and bar.unit >= 4 for bar in played.bars) / 1600
    assert slow < 0.1
    assert played.batches_per_second > 0.8 * 4 / 0.03


def test_backups_apply_what_their_primaries_apply():
    hosts = replace(HOSTS, count=2, apply_s=0.08)
    assert rate(run(2, kernel=0.0, hosts=hosts), Async(4)) == pytest.approx(2 / 0.08, rel=0.1)
    double = replace(hosts, replicas=2)
    assert rate(run(2, kernel=0.0, hosts=double), Async(4)) == pytest.approx(1 / 0.08, rel=0.15)


def test_an_all_reduced_step_takes_its_bytes_and_its_rule():
    pools = {"cpu": PoolOfWorkers(1e8, 1e8)}
    plain = rate(run(2, pools=pools), Sync(), lanes=2)
    assert plain == pytest.approx(2 / 0.03, rel=0.05)
    reduced = rate(run(2, pools=pools, group_bytes=2e6, group_s=0.005), Sync(), lanes=2, group=True)
    assert reduced == pytest.approx(2 / (0.03 + 0.01 + 0.01 + 0.005), rel=0.1)  # half out, half in, the rule


def test_stage_workers_all_reduce_and_nothing_dense_goes_to_readers():
    """Of two lanes; a batch takes 0.03, then half of a gradient goes out, half comes in, and the rule is applied."""
    stages = (StageTimes((Crew("cpu", 2),), 0.0, 0.0), StageTimes((Crew("gpu", 2),), 0.01, 0.02))
    pools = {"cpu": PoolOfWorkers(1e6, 1e6), "gpu": PoolOfWorkers(1e8, 1e8)}  # readers could not carry a gradient
    given = run(2, stages=stages, pools=pools, group_bytes=2e6, group_s=0.005)
    found = rate(given, Sync(), lanes=2, group=True)
    assert found == pytest.approx(2 / (0.03 + 0.01 + 0.01 + 0.005), rel=0.1)


def test_cuts_drain_and_go_on():
    """Also while an attempt waits for the one before it to end: it answers before its turn."""
    hosts = replace(HOSTS, write_s=0.1)
    played = play(run(2, hosts=hosts), Script(Async(2), (10,) * 10, cut_every_s=0.15))
    assert played.cuts >= 5
    assert 50 * 0.03 < played.seconds < 1.5 * 50 * 0.03  # hosts write while batches go on


def test_hosts_are_spread_over_their_servers():
    hosts = replace(HOSTS, count=3, pull_bytes=3e6)
    pools = {"cpu": PoolOfWorkers(1e8, 1e8)}
    assert rate(run(3, kernel=0.0, hosts=hosts, pools=pools), Async(8), (60,) * 3) == pytest.approx(3 / 0.03, rel=0.1)


def test_starting_counts():
    played = play(run(start_s=2.0, task_s=0.1), Script(Async(2), (5,)))
    assert 2.2 < played.start_s < 2.8


def test_a_worker_that_is_not_there_cannot_be_slow():
    with pytest.raises(PlanError, match="no worker 2 that reads: they are numbered from 0 to 1"):
        play(run(2), Script(Async(2), (5,), slow={2: 2.0}))
