"""Drawn ids, lists and running statistics on a Dask cluster: the bits of one thread, wherever the graph is cut."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps import ops
from heterps.planner.plan import Plan
from heterps.stages.lowering import lower
from heterps.testing.engine_contract import same

pytestmark = pytest.mark.xdist_group("dask")

ITEMS, ROWS, BATCH = 30, 320, 16
COMPUTE = ("interest", "fc", "norm", "act", "score", "products", "scores", "loss")


def everything() -> hps.Graph:
    """A next-item model with attention over a history, normalisation, and drawn negatives."""
    history = ops.input("history", dtype="uint64", ragged=True, mean_length=3.0)
    last, target = ops.input("last", dtype="uint64"), ops.input("target", dtype="uint64")
    drawn = ops.negative_sampling(target, 4, ITEMS, distribution="log_uniform", name="drawn")
    seen, query = (ops.lookup(i, table="seen", dim=4, name=n) for i, n in ((history, "seen"), (last, "query")))
    interest = ops.attention(query, seen, hidden=(3,), normalise=True, name="interest")
    h = ops.prelu(ops.batch_norm(ops.dense(interest, 4, name="fc"), name="norm"), name="act")
    true, others = (ops.lookup(i, table="next", dim=4, name=n) for i, n in ((target, "true"), (drawn, "others")))
    score = ops.cosine(h, true, name="score")
    scores = ops.sum(ops.mul(others, h, name="products"), axis=-1, name="scores")
    return hps.Graph(loss=ops.nce(score, scores, target, drawn, name="loss"), outputs={"state": h})


def rows() -> hps.Dataset:
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 6, ROWS))])
    columns = {
        "history": hps.Ragged(rng.integers(0, ITEMS, offsets[-1]).astype(np.uint64), offsets),
        "last": rng.integers(0, ITEMS, ROWS),
        "target": rng.integers(0, ITEMS, ROWS),
    }
    return hps.arrays(columns, split_cost=80)


def fused(**rest: Any) -> Plan:
    return Plan.fused(everything(), batch_size=BATCH, lanes=2, **rest)


def cut(first: str) -> Plan:
    """Everything from the named op on runs on another worker."""
    whole = fused(shard_hosts=2)
    ops_ = [op.name for op in lower(whole.graph).graph]
    later = {*COMPUTE, *(("seen", "query") if first == "seen" else ())}
    pieces = (tuple(n for n in ops_ if n not in later), tuple(n for n in ops_ if n in later))
    (stage,), pool = whole.stages, whole.pools[0]
    compute = replace(pool, name="compute")
    stages = tuple(
        replace(stage, name=f"stage {i}", layers=(), ops=piece, pool=(pool, compute)[i].name)
        for i, piece in enumerate(pieces)
    )
    return replace(whole, stages=stages, pools=(pool, compute))


def trained(plan: Plan, engine: str) -> dict[str, np.ndarray]:
    with hps.launch(plan, engine=engine, mode="sync", dense=hps.Adam(lr=0.01)) as session:
        session.fit(rows())
        return session.predict(rows(), fetch=["query", "true", "state", "prediction"])


@pytest.mark.parametrize("first", ["interest", "seen"])
def test_a_stage_elsewhere_gives_the_bits_of_one_thread(first: str) -> None:
    """Either the lists of vectors cross between workers, or the rows they are gathered from."""
    assert same(trained(cut(first), "dask"), trained(fused(), "inline"))
