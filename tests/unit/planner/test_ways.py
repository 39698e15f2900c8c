import json

import pytest

from graphs.wide_deep import wide_deep
from heterps.errors import PlanError
from heterps.hardware import Hardware
from heterps.launching import launch
from heterps.planner import Plan, plan
from heterps.planner.show.diff import diff
from heterps.planner.ways import Way, cache_ways, parse_way, resolve_ways
from heterps.protocol.words.modes import Cached


@pytest.mark.parametrize(
    ("text", "way"), [("table", Way()), ("allreduce", Way("allreduce")), ("geo:100", Way("geo", 100))]
)
def test_ways_are_read_as_they_are_written(text, way):
    assert parse_way(text) == way
    assert str(way) == text


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ({"zz*": "table"}, r"'zz\*' matches nothing; dense parameters are fc0.weight, .*, tables deep, wide"),
        ({"fc*": "tabel"}, "'tabel' is not known: use one of table, allreduce, geo:k, cache:rows"),
        ({"fc*": "geo"}, "'geo' is not understood: write geo:k with a whole number of at least 1"),
        ({"fc*": "geo:0"}, "'geo:0' is not understood"),
        ({"fc*": "table:3"}, "'table:3' is not understood: write 'table' alone"),
        ({"fc*": "table", "*.bias": "geo:5"}, r"'fc\*' says table and '\*.bias' says geo:5 of 'fc0.bias'"),
        ({"fc0": "table", "fc0.weight": "geo:5"}, "'fc0' says table and 'fc0.weight' says geo:5 of 'fc0.weight'"),
        ({"deep": "allreduce"}, "table 'deep' cannot travel by 'allreduce'.*for dense parameters"),
        ({"out": "cache:10"}, "dense parameter 'out.weight' cannot travel by 'cache:10'.*for tables"),
        ({"deep": "geo:5"}, "share rows and so a way: deep geo:5, wide table"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_patterns_that_cannot_hold_are_named(patterns, message):
    with pytest.raises(PlanError, match=message):
        resolve_ways(wide_deep(), patterns)


def test_a_name_counts_before_a_pattern_and_a_pattern_before_all():
    ways = resolve_ways(wide_deep(), {"*": "table", "fc*": "allreduce", "fc1.bias": "table"})
    assert ways["out.weight"] == ways["deep"] == Way("table")
    assert ways["fc0.weight"] == ways["fc1.weight"] == Way("allreduce")
    assert ways["fc1.bias"] == Way("table")
    ways = resolve_ways(wide_deep(), {"*": "geo:5", "fc*": "table", "out": "table"})
    assert ways["deep"] == ways["wide"] == Way("geo", 5)
    assert ways["out.weight"] == ways["fc1.bias"] == Way("table")


def test_ways_that_cannot_go_together_are_refused_wherever_they_are_given():
    made = Plan.fused(wide_deep(), batch_size=64)
    for refused in (
        lambda: launch(made, engine="inline", parameters={"*": "geo:5"}),
        lambda: Plan.fused(wide_deep(), batch_size=64, parameters={"*": "geo:5"}),
        lambda: plan(wide_deep(), Hardware.local(), batch_size=64, parameters={"*": "geo:5"}),
    ):
        with pytest.raises(PlanError, match=r"dense parameter 'fc0.weight' cannot travel by 'geo:5'.*mode 'geo:K'"):
            refused()


def test_a_plan_carries_its_ways(tmp_path):
    made = plan(wide_deep(), Hardware.local(), batch_size=64, parameters={"fc*": "table"})
    made.save(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["parameters"] == {"fc*": "table"}
    assert Plan.load(tmp_path / "plan.json") == made
    assert "parameters: fc* table" in made.report()
    bare = Plan.fused(wide_deep(), batch_size=64)
    assert ("parameters", "by table", "fc* table") in diff(bare, made)
    with launch(made, engine="inline") as session:
        assert session.job.ways["fc0.weight"] == Way()


@pytest.mark.parametrize(
    ("text", "bytes_"), [("cache:64MB", 64_000_000), ("cache:1.5kB", 1500), ("cache:2MiB", 2 << 20), ("cache:7 B", 7)]
)
def test_caches_are_given_in_bytes(text, bytes_):
    way = parse_way(text)
    assert way == Way("cache", bytes_, in_bytes=True)
    assert parse_way(str(way)) == way


def test_caches_by_name_and_pattern_of_tables():
    assert cache_ways(wide_deep(), 50) == {"deep": "cache:50", "wide": "cache:50"}
    assert cache_ways(wide_deep(), {"*": "1MB", "d*": 7, "wide": 3}) == {"deep": "cache:7", "wide": "cache:3"}
    with pytest.raises(PlanError, match=r"cache_rows: 'x\*' matches no table; there are"):
        cache_ways(wide_deep(), {"x*": 5})


def test_a_plan_carries_its_caches(tmp_path):
    made = Plan.fused(wide_deep(), batch_size=64, parameters={"deep": "cache:50", "wide": "cache:50"}, mode=Cached(4))
    made.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded == made
    assert "cache mode" in loaded.report()
    with launch(loaded, engine="inline") as session:
        assert session.job.mode == Cached(4)
        assert [session.job.cached_rows(group) for group in session.job.model.groups] == [50]
