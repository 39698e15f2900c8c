"""Every model of the zoo in small, with data for it and plans that cut it."""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import heterps as hps
from heterps import ops
from heterps.hardware import Pool
from heterps.planner.plan import Stage
from heterps.runtime.measure.synthetic import synthetic_batch

ROWS, BATCH = 20, 8  # the last batch is an odd one
_WIDE: dict[str, Any] = {"slots": 3, "dense": 2, "dim": 4, "hidden": (5, 4)}
SMALL: dict[str, dict[str, Any]] = {
    "ctrdnn": _WIDE,
    "dcn_v2": {**_WIDE, "crosses": 2, "rank": 2},
    "deepfm": _WIDE,
    "din": {"user_slots": 2, "dim": 4, "attention": (4,), "hidden": (5, 4), "mean_history": 3.0},
    "dlrm": {"slots": 3, "dense": 2, "dim": 4, "bottom": (5,), "top": (6, 4)},
    "dnn": {"dense": 2, "hidden": (5, 4)},
    "matchnet": {"user_slots": 2, "dim": 4, "hidden": (5,), "width": 4, "mean_history": 3.0},
    "mmoe": {"slots": 3, "dense": 2, "dim": 4, "experts": 2, "expert": 4, "tower": 3},
    "mnist_mlp": {"pixels": 12, "hidden": (6, 5), "classes": 2},
    "nce": {"vocabulary": 40, "dim": 4, "negatives": 3, "mean_history": 3.0},
    "resnet": {"layers": 18, "shape": (8, 8, 3), "classes": 2, "width": 4},
    "two_emb": {"left_slots": 2, "right_slots": 2, "dim": 4, "hidden": (6, 5, 4)},
    "wide_deep": {**_WIDE, "dropout": 0.3},
    "word2vec": {"vocabulary": 40, "dim": 4, "negatives": 3},
}


def graph(name: str) -> hps.Graph:
    """A small model."""
    made: hps.Graph = getattr(importlib.import_module(f"graphs.{name}"), name)(**SMALL[name])
    return made


def data(model: hps.Graph, rows: int = ROWS) -> hps.Dataset:
    """Columns as the model declares them, with few different ids."""
    columns = {op.name: _few(column) for op in model.inputs for column in [synthetic_batch(model, rows)[op.name]]}
    if "y" in columns and columns["y"].ndim > 1:  # a label for each task
        columns["y"] = (columns["y"] > 0).astype(np.float32)
    return hps.arrays(columns, split_cost=rows)


def _few(column: Any) -> Any:
    if isinstance(column, hps.Ragged):
        return hps.Ragged(_few(column.values), column.offsets)
    return column % np.uint64(40) if column.dtype == np.uint64 else column


def staged(model: hps.Graph, cuts: Sequence[Sequence[str]] | None = None, batch_size: int = BATCH) -> hps.Plan:
    """A plan of stages in turn on the pool that reads and on one of GPUs: where labels say so, or at given ops."""
    fused = hps.Plan.fused(model, batch_size=batch_size)
    pieces = (
        [tuple(part.ops) for part in hps.partition(model).parts] if cuts is None else [tuple(names) for names in cuts]
    )
    if len(pieces) == 1:  # nothing is looked up: the data is read in one place and computed with in another
        inputs = tuple(op.name for op in model.inputs)
        pieces = [inputs, tuple(op for op in pieces[0] if op not in inputs)]
    cpu = replace(fused.pools[0], name="io")
    gpu = Pool("gpu", replace(cpu.device, name="some-gpu", kind="gpu"), serves=False)
    stages = tuple(Stage(f"s{i}", (), names, ("io", "gpu")[i % 2], 1) for i, names in enumerate(pieces))
    return replace(fused, stages=stages, pools=(cpu, gpu), shard_pool="io")


def check_cuts(made: hps.Plan, folder: Path, first: dict[str, Any], others: Sequence[dict[str, Any]]) -> None:
    """Let runs that keep parameters in other ways go on from a cut of the first, and hold all against each other."""
    rows = data(made.graph, 6 * BATCH)
    options: dict[str, Any] = {"mode": "sync", "device": "fake", "report_s": 1e9}
    with hps.launch(made, **first, checkpoint=folder / "cuts", every_batches=2, **options) as session:
        session.fit(rows)
        whole = np.asarray(session.predict(rows))
        session.save(folder / "model")
    found = []
    for other in others:
        with hps.launch(made, **other, resume=folder / "cuts", **options) as session:
            session.fit(rows)
            found.append(np.asarray(session.predict(rows)))
    with hps.load(folder / "model") as session:
        found.append(np.asarray(session.predict(rows)))
    for again in found:
        np.testing.assert_allclose(again, whole, rtol=1e-5, atol=1e-6)


def pinned(name: str) -> hps.Graph:
    """The vendors' examples with places given by hand: a small table, or one tower, beside the dense layers."""
    return {"two_emb": _two_embeddings, "matchnet": _matchnet}[name]()


def _two_embeddings() -> hps.Graph:
    ids, few = ops.input("ids", shape=(3,), dtype="uint64"), ops.input("few", shape=(2,), dtype="uint64")
    y = ops.input("y")
    a = ops.concat(ops.lookup(ids, table="large", dim=4), name="a_in")
    with ops.place("gpu"):
        b = ops.concat(ops.lookup(few, table="small", dim=4), name="b_in")
        a, b = (ops.relu(ops.dense(h, 5, name=name)) for h, name in ((a, "a"), (b, "b")))
        return hps.Graph(loss=ops.logloss(ops.dense(ops.concat(a, b, name="both"), 1, name="out"), y, name="loss"))


def _matchnet() -> hps.Graph:
    user, item = ops.input("user", shape=(3,), dtype="uint64"), ops.input("item", shape=(2,), dtype="uint64")
    y = ops.input("y")
    with ops.place("cpu"):
        u = ops.concat(ops.lookup(user, table="users", dim=4), name="u_in")
        u = ops.tanh(ops.dense(u, 5, name="user0"), name="user_vector")
        v = ops.concat(ops.lookup(item, table="items", dim=4), name="v_in")
    with ops.place("gpu"):
        v = ops.tanh(ops.dense(v, 5, name="item0"), name="item_vector")
        product = ops.sum(ops.mul(u, v, name="product"), keepdims=True, name="cosine")
        return hps.Graph(loss=ops.logloss(ops.dense(product, 1, name="out"), y, name="loss"))
