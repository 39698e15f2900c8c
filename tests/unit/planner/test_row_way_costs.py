"""The planner knows what rows cost by each way, and lets them be stale only where that is allowed."""

import pytest
from click.testing import CliRunner

import heterps as hps
from heterps import ops
from heterps.cli import main
from heterps.errors import PlanError
from heterps.planner import plan
from heterps.planner.costs.row_way_costs import row_way_costs
from heterps.planner.costs.sample import Growth, Sample
from heterps.planner.goals import MaxThroughput
from heterps.planner.planner import Request
from heterps.protocol.words.modes import Async, Mixed, MixedSync, Sync
from tests.unit.planner.test_way_costs import cluster


def graph(rule=hps.SGD(0.1), dim: int = 64) -> hps.Graph:  # noqa: B008
    users, items = (ops.input(name, shape=(8,), dtype="uint64") for name in ("users", "items"))
    mine = ops.lookup(users, table="user", dim=dim, rule=rule)
    hidden = ops.concat(ops.sum(mine), ops.sum(ops.lookup(items, table="item", dim=dim)))
    return hps.Graph(loss=ops.logloss(ops.dense(hidden, 1, name="out"), ops.input("y")))


def planned(made=None, **options) -> hps.Plan:
    return plan(made or graph(), cluster(network=1.25e7), batch_size=256, seconds=5, **{"mode": Async(), **options})


def seen(repeats: int) -> Sample:
    """Ids that come back so often: of 100 batches each id is in so many."""
    met = dict.fromkeys(("user", "item"), ((repeats, 8 * 256 * 100 // repeats),))
    growth = {name: Growth(1.0, 0.0, 100.0 * 2048, 100.0 * 2048 / repeats) for name in met}
    return Sample(25_600, 256, 1.0, growth, dict.fromkeys(met, 8.0), None, 100, met)


def test_rows_stay_as_fresh_as_the_mode_is_unless_somebody_allows_more():
    made = planned()
    assert not made.parameters
    assert made.mode == Async()
    assert "rows of" not in " ".join(made.assumptions)


@pytest.mark.parametrize(("mode", "becomes"), [(Async(), Mixed(50)), (Sync(), MixedSync(50))])
def test_tables_travel_by_geo_where_that_is_cheaper_and_allowed(mode, becomes):
    made = planned(stale=50, mode=mode, sample=seen(100))
    assert made.parameters["user"] == "geo:50"
    assert "item" not in made.parameters, "nobody says that its rule can be applied by workers"
    assert made.mode == becomes
    told = " ".join(made.assumptions)
    assert f"mode {becomes.name}, which the ways of parameters take" in told
    assert "rows of user by way (the cheapest is chosen): table" in told
    assert "(table item does not name the rule SGD or Momentum)" in told


def test_ids_that_never_come_back_stay_on_hosts():
    assert "user" not in planned(stale=50, sample=seen(1)).parameters


def test_what_is_pinned_is_told_and_taken():
    made = planned(parameters={"user": "geo:20"})
    assert made.parameters == {"user": "geo:20"}
    assert made.mode == Mixed(20)
    assert "rows of user by way (pinned)" in " ".join(made.assumptions)


def test_bytes_follow_from_ranges_and_lanes():
    made = planned()
    costs = Request(made.graph, cluster(), MaxThroughput(), (256,)).costs(256)
    (user, _) = row_way_costs(costs, made, seen(100), 50)
    table, geo = user.ways
    rows, row, lanes = 8 * 256 * costs.layers.unique_fraction, 4 * 64 + 8, made.lanes
    assert table.worker_bytes == pytest.approx(2 * rows * row * lanes / sum(made.stages[0].workers.values()))
    assert geo.worker_bytes == pytest.approx(table.worker_bytes / rows * 2048 / 50), "all ids are in every batch"
    assert geo.memory_bytes > 0 == table.memory_bytes


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"made": graph(hps.Adam())}, "table user does not name the rule SGD or Momentum"),
        ({"mode": hps.Geo(7)}, "it takes async or sync mode, the plan is geo"),
    ],
    ids=["rule", "mode"],
)
def test_what_stands_in_the_way_is_said(options, why):
    made = planned(stale=50, sample=seen(100), **options)
    assert "user" not in made.parameters
    assert why in " ".join(made.assumptions)


def test_the_mode_that_was_assumed_is_told():
    assert "mode async: nobody asked for another one (mode=, --mode)" in planned(mode=None).assumptions
    assert "mode sync, as was asked for" in planned(mode=Sync()).assumptions


def test_a_number_of_batches_is_at_least_one():
    with pytest.raises(PlanError, match="stale=0: it is a number of batches"):
        planned(stale=0)


def test_the_command_line_has_it(tmp_path):
    (tmp_path / "hw.toml").write_text(cluster().to_toml())
    words = ["plan", "graphs/word2vec.py:word2vec", "--batch-size", "256", "--stale", "40", "--seconds", "5"]
    found = CliRunner().invoke(main, [*words, "--hardware", str(tmp_path / "hw.toml")])
    assert found.exit_code == 0, found.output
    told = " ".join(found.output.split())
    assert "by way (the cheapest is chosen): table" in told
    assert "geo:40" in told
