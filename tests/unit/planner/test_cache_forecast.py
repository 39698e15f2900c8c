"""What a cache is expected to come to, against what one comes to."""

import numpy as np
import pytest

from graphs.wide_deep import wide_deep
from heterps.hardware import Hardware
from heterps.planner import plan
from heterps.planner.costs.cache_forecast import forecast_cache
from heterps.planner.costs.sample import Sample, sample_batches
from heterps.protocol.client.freshness import Freshness
from heterps.protocol.words.modes import Cached
from heterps.tables import CachedRows, GroupSpec, TableSpec

IDS, DRAWN, BATCHES = 3000, 400, 300
PARAMETERS = {"deep": "cache:300", "wide": "cache:300"}


def zipf_batches(count: int = BATCHES) -> list[np.ndarray]:
    """Distinct ids of batches by Zipf 1.1."""
    mass = np.arange(1, IDS + 1) ** -1.1
    rng = np.random.default_rng(3)
    drawn = rng.choice(IDS, (count, DRAWN), p=mass / mass.sum())
    return [np.unique(batch).astype(np.uint64) for batch in drawn]


def played(rows: int, mode: Cached) -> float:
    """Return the hit rate of a real cache whose units are settled as soon as they can be."""
    cached, fresh = CachedRows(GroupSpec("g", (TableSpec("t", 4),)), rows), Freshness(mode.staleness, mode.unit)
    used = asked = 0
    fresh.enter()
    for n, ids in enumerate(zipf_batches()):
        fresh.begin(n)
        where, lacking = cached.need(ids, fresh.count(n), fresh.needed(n), fresh.contained)
        values = np.zeros((int(lacking.sum()), 4), np.float32)
        cached.take(where[lacking], values, fresh.contained, 0)
        cached.let_go(fresh.count(n) + 1)
        used, asked = used + len(ids), asked + len(values)
        if n % mode.unit == mode.unit - 1:
            fresh.settled(n - n % mode.unit)
    return 1 - asked / used


def met() -> list[tuple[int, int]]:
    times, ids = np.unique(np.bincount(np.concatenate(zipf_batches()).astype(int)), return_counts=True)
    return list(zip(times.tolist(), ids.tolist(), strict=True))


@pytest.mark.parametrize("rows", [60, 300, 3000])
@pytest.mark.parametrize("staleness", [0, 7, 32])
def test_the_forecast_is_near_what_a_cache_does(rows: int, staleness: int) -> None:
    mode = Cached(staleness)
    told = forecast_cache(met(), BATCHES, 4, rows, mode)
    assert told.hit_rate == pytest.approx(played(rows, mode), abs=0.06)
    assert told.without > told.bytes_per_batch


def test_more_rows_and_more_staleness_save_more() -> None:
    few, many = (forecast_cache(met(), BATCHES, 4, rows, Cached(16)) for rows in (50, 500))
    late = forecast_cache(met(), BATCHES, 4, 500, Cached(64))
    assert few.hit_rate < many.hit_rate < late.hit_rate
    assert few.bytes_per_batch > many.bytes_per_batch > late.bytes_per_batch


def test_a_sample_says_how_often_ids_were_met_and_survives_json() -> None:
    batches = [{"ids": np.array([[a, b]] * 2), "x": np.zeros((2, 1)), "y": np.zeros(2)} for a, b in ((1, 2), (1, 3))]
    sample = sample_batches(wide_deep(slots=2, dense=1), batches)
    assert sample.batches == 2
    assert sample.met == {"deep+wide": ((2, 1), (1, 2))}
    assert Sample.from_json(sample.to_json()) == sample


def test_a_plan_with_caches_says_which_mode_it_assumes_and_how_many_rows_will_be_there() -> None:
    rng = np.random.default_rng(1)
    batches = [
        {"ids": rng.zipf(1.3, (64, 2)) % 1000, "x": np.zeros((64, 1), np.float32), "y": np.zeros(64, np.float32)}
        for _ in range(20)
    ]
    graph, options = wide_deep(slots=2, dense=1, hidden=(8,)), {"batch_size": 64, "parameters": PARAMETERS}
    told = plan(graph, Hardware.local(), sample=batches, **options)
    assert told.mode == Cached()
    assert "cache mode" in told.report()
    (line,) = [text for text in told.assumptions if text.startswith("cache of")]
    assert "cache of deep, wide: 300 rows, staleness 16: " in line
    assert "% of the rows of a batch are there" in line
    unknown = plan(graph, Hardware.local(), mode=Cached(4), **options)
    assert any("give the planner data" in text for text in unknown.assumptions)
