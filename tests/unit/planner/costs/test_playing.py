"""Plans played in simulated time beside their forecasts."""

from dataclasses import replace

import pytest

from graphs.ctrdnn import ctrdnn
from graphs.wide_deep import wide_deep
from heterps.hardware import Hardware, Host, Pool
from heterps.planner import MinCost, plan, play
from heterps.planner.costs import expectation
from heterps.planner.costs.expectation import by_hand, forecast
from heterps.planner.costs.on_the_way import wire_s
from heterps.planner.costs.playing import durations_of
from heterps.planner.costs.profile import Line, Profile, Rates
from heterps.planner.costs.sample import sample_batches
from heterps.planner.costs.steady import miniature
from heterps.protocol import Async, Sync
from heterps.runtime.measure.synthetic import synthetic_batch


@pytest.fixture(scope="module")
def made(rented):
    return plan(ctrdnn(), rented, goal=MinCost(5e5), batch_size=8192)


def test_a_plan_is_played_about_as_fast_as_it_is_forecast(made, rented):
    played = play(made, rented, splits=(8 * made.depth,) * made.lanes)
    assert played.rows_per_second == pytest.approx(made.forecast.rows_per_second, rel=0.1)


def test_its_bars_follow_one_another(made, rented):
    bars = play(made, rented, splits=(12,) * made.lanes).bars
    for batch in {bar.batch for bar in bars}:
        forward = max(b.stop_s for b in bars if (b.batch, b.stage, b.backward) == (batch, 0, False))
        (both,) = [b for b in bars if (b.batch, b.stage) == (batch, len(made.stages) - 1)]
        backward = min(b.start_s for b in bars if (b.batch, b.stage, b.backward) == (batch, 0, True))
        assert forward <= both.start_s
        assert both.stop_s <= backward


def test_too_few_batches_in_flight_show(made, rented):
    shallow = replace(made, depth=1, mode=replace(made.mode, depth=1))
    assert play(shallow, rented, splits=(20,) * made.lanes).rows_per_second < 0.8 * made.forecast.rows_per_second


def test_where_the_network_is_the_limit_both_ways_of_counting_agree(rented):
    """Sending and receiving apart: rows go out while gradients come in."""
    whole = by_hand(wide_deep(), rented, [("cpu", ["*"], 3)], batch_size=256, shard_hosts=3, depth=8)
    expected = forecast(whole, rented).forecast
    assert expected.stages[0].limit == "data: network"
    played = play(replace(whole, mode=replace(whole.mode, depth=8)), rented, splits=(60,) * 3)
    assert played.rows_per_second == pytest.approx(expected.rows_per_second, rel=0.01)


def test_gradients_of_later_stages_pass_through_the_first(rented):
    """The worker that reads receives and pushes them: with small batches that is what it does most."""
    stages = [("cpu", ["read", "pull*"], 1), ("gpu", ["*"], 8)]
    apart = by_hand(ctrdnn(), rented, stages, batch_size=256, shard_hosts=8, depth=16)
    expected = forecast(apart, rented).forecast
    assert expected.bottleneck == "stage io"
    played = play(replace(apart, mode=replace(apart.mode, depth=16)), rented, splits=(80,))
    assert played.rows_per_second == pytest.approx(expected.rows_per_second, rel=0.1)


def test_cores_of_a_host_are_counted_in_units_of_the_pools_that_work_there(rented):
    """A pool of larger units that nobody uses makes nobody slower."""
    device = replace(rented.pool("cpu").device, cores=2)
    pools = (Pool("cpu", device, 4, "box"), Pool("large", replace(device, name="large", cores=16), 1, "box"))
    both = Hardware(pools, (Host("box", 8, 64e9, 1e12),))
    made = by_hand(wide_deep(), both, [("cpu", ["*"], 2)], batch_size=4096)
    expected = forecast(made, both).forecast.rows_per_second
    assert play(made, both, splits=(20, 20)).rows_per_second == pytest.approx(expected, rel=0.2)


def test_sync_waits_for_a_slow_worker(rented):
    whole = replace(by_hand(wide_deep(), rented, [("cpu", ["*"], 2)], batch_size=4096), mode=Sync())
    even, uneven = (play(whole, rented, splits=(20, 20), slow=slow) for slow in (None, {0: 3.0}))
    assert uneven.rows_per_second < 0.6 * even.rows_per_second


def test_a_large_plan_is_played_in_miniature(rented):
    many = Hardware(tuple(replace(pool, cap=None) for pool in rented.pools))
    large = by_hand(
        ctrdnn(), many, [("cpu", ["read", "pull*"], 60), ("gpu", ["*"], 30)], batch_size=256, shard_hosts=30
    )
    small = miniature(large, 12)
    assert [stage.units for stage in small.stages] == [6, 3]
    assert (small.lanes, small.shard_hosts) == (6, 3)
    assert miniature(small, 12) is small


def test_rows_that_are_new_keep_shard_hosts_busy(rented):
    """As many as the sample says the tables will hold, spread over the rows of the job."""
    made = by_hand(wide_deep(), rented, [("cpu", ["*"], 1)], batch_size=256)
    seen = sample_batches(wide_deep(), [synthetic_batch(wide_deep(), 256, seed) for seed in range(4)])
    rates = Rates.of(rented.pool("cpu").device)
    known, plain = (Profile({"cpu": replace(rates, create_s=seconds)}) for seconds in (1e-6, 0.0))
    costs = [expectation._costs(made, rented, each, seen, None) for each in (known, plain)]
    rows = sum(table.rows for table in costs[0].tables) / seen.rows * 256  # of a batch
    took = [each.shard_s(rented.pool("cpu")) for each in costs]
    assert took[0] - took[1] == pytest.approx(rows * 1e-6)
    first, second = (play(made, rented, each, seen, splits=(20,)).rows_per_second for each in (known, plain))
    assert first < second


def test_in_sync_gradients_of_all_lanes_are_added_up_before_they_are_applied(rented):
    made = by_hand(wide_deep(), rented, [("cpu", ["*"], 2)], batch_size=256)
    rates = replace(Rates.of(rented.pool("cpu").device), push=Line(0.0, 1e-6), dense=Line(1e-3), merge_s=2e-6)
    costs = expectation._costs(made, rented, Profile({"cpu": rates}), None, None)
    rows = sum(op.type.shape[0] * 256 * costs.layers.unique_fraction for op in costs.pulls)
    sync, alone = (durations_of(replace(made, mode=mode), costs).hosts.apply_s for mode in (Sync(), made.mode))
    assert sync - alone == pytest.approx(rows * (2e-6 + (2**0.8 / 2 - 1) * 1e-6) - 1e-3 / 2)


def test_merged_batches_ask_hosts_less_and_send_dense_gradients_once(rented):
    """Of four batches a push: distinct rows by Heaps' law, dense parameters one time in four, there and back."""
    fused = by_hand(ctrdnn(), rented, [("cpu", ["*"], 4)], batch_size=256, shard_hosts=1, depth=2)
    costs = expectation._costs(fused, rented, None, None, None)
    single = durations_of(fused, costs).hosts
    four = durations_of(replace(fused, mode=Async(2, merge=4)), costs).hosts
    dense, rows = 4.0 * costs.dense_size, single.push_bytes - 4.0 * costs.dense_size
    assert four.push_bytes == pytest.approx(rows * 4**-0.2 + dense / 4)
    assert four.pull_bytes == pytest.approx(single.pull_bytes - 0.75 * dense)
    assert four.apply_s < 0.8 * single.apply_s
    played = [play(replace(fused, mode=Async(2, merge=n)), rented, splits=(40,) * 4) for n in (1, 4)]
    sent = [sum(each.bytes_per_second.values()) / each.rows_per_second for each in played]
    assert sent[1] < 0.7 * sent[0]
    assert played[1].rows_per_second > played[0].rows_per_second


def test_merged_batches_of_later_stages_ask_for_parameters_once(rented):
    stages = [("cpu", ["read", "pull*"], 2), ("gpu", ["*"], 2)]
    apart = by_hand(ctrdnn(), rented, stages, batch_size=256, shard_hosts=1, depth=4)
    costs = expectation._costs(apart, rented, None, None, None)
    single, four = (durations_of(replace(apart, mode=Async(4, merge=n)), costs) for n in (1, 4))
    assert four.stages[1].dense_every == 4
    assert four.stages[1].dense_call_s == pytest.approx(single.stages[1].dense_call_s / 4)
    assert four.stages[1].dense_bytes == single.stages[1].dense_bytes  # gradients go back with every batch
    assert four.worker.push_s < single.worker.push_s
    once = single.stages[1].dense_bytes * wire_s(costs, rented.pool("cpu"))
    on_cpus = replace(apart, stages=tuple(replace(stage, pool="cpu") for stage in apart.stages))
    entered = [durations_of(replace(on_cpus, mode=Async(4, merge=n)), costs).stages[1].enter_s for n in (1, 4)]
    assert entered[0] - entered[1] == pytest.approx(0.75 * once)  # gradients leave with every batch


def test_a_cut_takes_what_its_rows_take_to_be_written(rented):
    made = by_hand(wide_deep(), rented, [("cpu", ["*"], 1)], batch_size=256, shard_hosts=2)
    costs = expectation._costs(made, rented, None, None, None)
    rows = sum(table.bytes for table in costs.tables)
    assert durations_of(made, costs).hosts.write_s == pytest.approx((rows + costs.dense_bytes) / 2 / 5e8)
