"""Samples, growth, profiles, figures, validation, differences."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from graphs.ctrdnn import ctrdnn
from graphs.wide_deep import wide_deep
from heterps.data import arrays
from heterps.errors import ClusterError, DataError, PlanError
from heterps.hardware import Hardware
from heterps.planner import MinCost, Plan, Profile, Rates, Sample, diff, plan, sample_batches, sample_dataset, validate
from heterps.planner.costs.profile import Line, fit_fraction, fit_line
from heterps.planner.costs.sample import fit_growth
from heterps.planner.show.figures import bytes_text, count_text, money_text, parse_count, percent_text, seconds_text
from heterps.ragged import Ragged

# --- samples


def batches(n, size=500, vocabulary=10**6, power=1.3, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        ids = (rng.zipf(power, (size, 26)) % vocabulary).astype(np.uint64)
        yield {"ids": ids, "x": rng.random((size, 13), np.float32), "y": rng.random(size)}


def test_unique_fraction_and_counts_are_those_of_the_data():
    few = list(batches(4))
    sample = sample_batches(wide_deep(), few)
    expected = sum(len(np.unique(b["ids"])) for b in few) / sum(b["ids"].size for b in few)
    assert sample.unique_fraction == pytest.approx(expected)
    assert sample.rows == 2000
    assert sample.ids_per_row == {"deep+wide": 26.0}
    assert sample.growth["deep+wide"].distinct == len(np.unique(np.concatenate([b["ids"] for b in few])))
    assert Sample.from_json(json.loads(json.dumps(sample.to_json()))) == sample


def test_growth_is_forecast_from_a_tenth_of_the_data():
    whole = list(batches(200))
    sample = sample_batches(wide_deep(), whole[:20])
    ids = sum(b["ids"].size for b in whole)
    true = len(np.unique(np.concatenate([b["ids"] for b in whole])))
    assert sample.growth["deep+wide"].rows(ids) == pytest.approx(true, rel=0.25)


def test_a_closed_set_of_ids_stops_growing():
    sample = sample_batches(wide_deep(), batches(40, vocabulary=200, power=1.01))
    growth = sample.growth["deep+wide"]
    assert growth.distinct == 200
    assert growth.rows(1e12) <= 210


@given(st.floats(0.05, 1.0), st.floats(1.0, 50.0))
def test_heaps_law_is_recovered(exponent, scale):
    ids = np.arange(1, 40) * 1e5
    growth = fit_growth(ids, scale * ids**exponent)
    assert growth.exponent == pytest.approx(exponent, abs=1e-6)
    far = 1e9
    assert growth.rows(far) == pytest.approx(min(scale * far**exponent, far), rel=1e-3)


def test_sampling_stops_early_and_refuses_nothing():
    assert sample_batches(wide_deep(), batches(100), most_rows=1000).rows == 1000
    with pytest.raises(DataError, match="has no rows"):
        sample_batches(wide_deep(), [])


def test_ragged_columns_are_counted():
    import heterps as hps
    from heterps import ops

    ids, y = ops.input("ids", dtype="uint64", ragged=True, mean_length=2), ops.input("y")
    pooled = ops.lookup(ids, table="t", dim=4, pooling="sum")
    graph = hps.Graph(loss=ops.logloss(ops.dense(pooled, 1), y))
    column = Ragged(np.array([1, 2, 2, 3], np.uint64), np.array([0, 3, 3, 4], np.int64))
    sample = sample_batches(graph, [{"ids": column, "y": np.zeros(3)}])
    assert sample.rows == 3
    assert sample.growth["t"].distinct == 3
    assert sample.ids_per_row["t"] == pytest.approx(4 / 3)


# --- profiles


def test_lines_go_through_their_points_and_are_never_negative():
    line = fit_line({1024.0: 0.002, 4096.0: 0.005})
    assert line(1024) == pytest.approx(0.002)
    assert line(4096) == pytest.approx(0.005)
    steeper = fit_line({1024.0: 0.001, 4096.0: 0.005})
    assert steeper.fixed_s == 0
    assert steeper(4096) == pytest.approx(0.005)
    assert fit_line({10.0: 1.0}) == Line(0.0, 0.1)


@given(st.floats(0.01, 1.0), st.integers(2, 64))
def test_the_parallel_part_is_recovered(fraction, units):
    shared = 3.0 * (1 - fraction + fraction / units)
    assert fit_fraction(3.0, shared, units) == pytest.approx(fraction, abs=1e-6)


def test_the_parallel_part_stays_a_fraction():
    assert fit_fraction(1.0, 5.0, 2) == 0.0
    assert fit_fraction(1.0, 0.1, 2) == 1.0
    assert fit_fraction(1.0, 1.0, 1) == 1.0


def test_profile_round_trip(tmp_path):
    rates = replace(Rates.of(Hardware.local().pools[0].device), layers={"fc0": Line(1e-5, 1e-6)}, source="measured")
    profile = Profile({"cpu": rates}, (1024, 4096), 0.4, ("note",))
    profile.save(tmp_path / "p.json")
    assert Profile.load(tmp_path / "p.json") == profile
    with pytest.raises(PlanError, match='format is "x", expected "heterps-profile/1"'):
        Profile.from_json({"format": "x"})
    with pytest.raises(PlanError, match="cannot be read"):
        Profile.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("[")
    with pytest.raises(PlanError, match="not JSON"):
        Profile.load(tmp_path / "bad.json")


# --- figures


@pytest.mark.parametrize(
    ("text", "value"), [("500k", 5e5), ("1.5M", 1.5e6), ("2e6", 2e6), ("250,000", 250000), ("3B", 3e9), ("12", 12)]
)
def test_counts_are_read(text, value):
    assert parse_count(text) == value


@pytest.mark.parametrize("text", ["", "k", "many", "5x", "1e400", "nan", "-inf"])
def test_wrong_counts_are_named(text):
    with pytest.raises(PlanError, match="is not a number"):
        parse_count(text)


def test_figures_are_written_as_people_write_them():
    assert [count_text(v) for v in (0, 7, 1234, 999_999, 5e6, float("inf"))] == [
        "0", "7", "1.23k", "1000k", "5.00M", "unlimited",
    ]  # fmt: skip
    assert bytes_text(2.5e9) == "2.50 GB"
    assert [seconds_text(v) for v in (1234.5, 2.0, 0.0123, 4.5e-6)] == ["1,234 s", "2 s", "12.3 ms", "4.5 µs"]
    assert [money_text(v) for v in (0, 1234.5, 0.00126)] == ["$0.00", "$1,234.50", "$0.00126"]
    assert [percent_text(v) for v in (0, 0.5, 0.0008)] == ["0 %", "50 %", "0.08 %"]


# --- validation


def test_a_plan_fits_the_hardware_it_was_made_for(rented):
    made = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)
    assert validate(made, rented) == ()


def test_what_is_missing_is_named_all_at_once(rented):
    made = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)
    with pytest.raises(ClusterError, match="pool 'gpu' is missing"):
        validate(made, Hardware(rented.pools[:1]))
    small = replace(rented.pools[0], cap=1, device=replace(rented.pools[0].device, memory_bytes=1e6))
    with pytest.raises(ClusterError) as caught:
        validate(made, replace(rented, pools=(small, rented.pools[1])))
    assert "pool 'cpu' has 1 of " in str(caught.value)
    assert "needs " in str(caught.value)
    wrong = replace(rented.pools[1], device=replace(rented.pools[1].device, kind="cpu"))
    with pytest.raises(ClusterError, match="was planned as gpu and is cpu"):
        validate(made, replace(rented, pools=(rented.pools[0], wrong)))


def test_doubts_are_warnings(rented):
    made = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)
    slow = replace(rented.pools[1].device, flops={"float32": 1e12}, network_bytes_per_s=1e8)
    warnings = validate(made, replace(rented, pools=(rented.pools[0], replace(rented.pools[1], device=slow))))
    assert len(warnings) == 2
    emulated = replace(rented.pools[1], emulated=True, device=replace(rented.pools[1].device, kind="cpu"))
    assert any("emulated" in w for w in validate(made, replace(rented, pools=(rented.pools[0], emulated))))


def test_the_rows_of_a_dataset_follow_from_what_was_read():
    rows = 20_000
    columns = {"ids": np.arange(26 * rows, dtype=np.uint64).reshape(rows, 26) % 977, "y": np.zeros(rows, np.float32)}
    data = arrays({**columns, "x": np.zeros((rows, 13), np.float32)}, split_cost=1000)
    sample = sample_dataset(wide_deep(), data, batch_size=500, most_rows=3000)
    assert sample.rows == 3000
    assert sample.total_rows == rows
    made = plan(wide_deep(), Hardware.local(), batch_size=512, sample=data)
    assert made.forecast.tables[0].rows == 977


# --- differences


def test_equal_plans_do_not_differ(rented):
    made = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)
    assert diff(made, Plan.from_json(made.to_json())) == []


def test_differences_name_decisions_and_figures(rented):
    a = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=8192)
    b = plan(ctrdnn(), rented, goal=MinCost(2e6), batch_size=4096, pins={"fc12": "cpu", "loss": "cpu"})
    changes = {what: (x, y) for what, x, y in diff(a, b)}
    assert changes["batch size"] == ("8192", "4096")
    assert ("gpu", "cpu") in [places for what, places in changes.items() if what.startswith("ops fc12, ")]
    assert changes["stages"][1].count("|") == 2
    assert "price per million rows" in changes
    assert diff(a, Plan.fused(wide_deep(), batch_size=64))[0][0] == "batch size"
