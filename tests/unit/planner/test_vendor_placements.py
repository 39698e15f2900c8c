"""Placements that the vendor's examples make by hand, scored by the planner's own model: it must never cost more."""

from dataclasses import replace

import pytest

import heterps as hps
from heterps import ops
from heterps.planner import MinCost, Profile, Rates, plan
from heterps.planner.costs.profile import Line


def ctr():
    """An embedding of 26 fields, joined; three layers of 400; softmax."""
    ids, x = ops.input("ids", shape=(26,), dtype="uint64"), ops.input("x", shape=(13,))
    y = ops.input("y", dtype="int64")
    h = ops.concat(ops.lookup(ids, table="fields", dim=10), x, name="features")
    for i in range(3):
        h = ops.relu(ops.dense(h, 400, name=f"fc{i}"), name=f"relu{i}")
    return hps.Graph(loss=ops.softmax_cross_entropy(ops.dense(h, 2, name="out"), y, name="loss"))


def two_embeddings():
    """A large table of 26 slots, a table of a hundred rows looked up by 5 slots, an MLP over each."""
    ids, few = ops.input("ids", shape=(26,), dtype="uint64"), ops.input("few", shape=(5,), dtype="uint64")
    y = ops.input("y")
    a = ops.concat(ops.lookup(ids, table="large", dim=16), name="a_in")
    b = ops.concat(ops.lookup(few, table="small", dim=16), name="b_in")
    for i in range(3):
        a = ops.relu(ops.dense(a, 400, name=f"a{i}"), name=f"ra{i}")
        b = ops.relu(ops.dense(b, 400, name=f"b{i}"), name=f"rb{i}")
    return hps.Graph(loss=ops.logloss(ops.dense(ops.concat(a, b, name="both"), 1, name="out"), y, name="loss"))


def matchnet():
    """A user tower and an item tower; the cosine of both against that of twenty negatives, looked up a second time."""
    user, item = ops.input("user", shape=(20,), dtype="uint64"), ops.input("item", shape=(6,), dtype="uint64")
    others, y = ops.input("others", shape=(20,), dtype="uint64"), ops.input("y", dtype="int64")
    u = ops.concat(ops.lookup(user, table="users", dim=16), name="u_in")
    v = ops.concat(ops.lookup(item, table="items", dim=16), name="v_in")
    for i, width in enumerate((512, 128)):
        u = ops.tanh(ops.dense(u, width, name=f"user{i}"), name=f"tu{i}")
        v = ops.tanh(ops.dense(v, width, name=f"item{i}"), name=f"tv{i}")
    u, v = ops.l2_normalize(u, name="user_vector"), ops.l2_normalize(v, name="item_vector")
    cosine = ops.sum(ops.mul(u, v, name="product"), keepdims=True, name="cosine")
    negatives = ops.lookup(others, table="negatives", dim=128)
    others_cosine = ops.matmul(ops.reshape(u, (1, 128), name="u_row"), negatives, transpose_b=True, name="against")
    scores = ops.concat(cosine, ops.reshape(others_cosine, (20,), name="top"), name="scores")
    return hps.Graph(loss=ops.softmax_cross_entropy(scores, y, name="loss"))


CASES = [
    (ctr(), {"fields": "cpu", "fc*": "gpu", "loss": "gpu"}),
    (two_embeddings(), {"large": "cpu", "pull small": "gpu", "small": "gpu", "a?": "gpu", "b?": "gpu", "loss": "gpu"}),
    (
        matchnet(),
        {"users": "cpu", "items": "cpu", "user[01]": "cpu", "item[01]": "gpu", "pull negatives": "gpu", "loss": "gpu"},
    ),
]


def measured(hardware):
    """A Profile that says other things than the data sheets do."""
    cpu, gpu = (Rates.of(pool.device) for pool in hardware.pools)
    return Profile(
        {"cpu": replace(cpu, read=Line(1e-4, 2e-7), batch_s=1e-3), "gpu": replace(gpu, flops_per_s=gpu.flops_per_s / 5)}
    )


@pytest.mark.parametrize(("graph", "pins"), CASES, ids=["ctr", "2emb", "matchnet"])
@pytest.mark.parametrize("profile", [lambda hardware: None, measured], ids=["data sheets", "profile"])
def test_the_planner_never_costs_more_than_the_vendors_placement(graph, pins, profile, rented):
    def made(pins):
        return plan(graph, rented, goal=MinCost(1e6), batch_size=8192, pins=pins, profile=profile(rented))

    by_hand, free = made(pins), made({})
    assert free.certificate.value <= by_hand.certificate.value * (1 + 1e-3)
    assert {stage.pool for stage in by_hand.stages} == {"cpu", "gpu"}
    assert all(by_hand.stage_of(op).pool == "gpu" for op in ("loss",))


def test_a_table_on_the_gpu_is_a_tier_of_its_own(rented):
    graph, pins = CASES[1]
    made = plan(graph, rented, goal=MinCost(1e6), batch_size=8192, pins=pins)
    assert {table.group: table.tier for table in made.forecast.tables} == {"large": "memory", "small": "gpu"}
