"""An op kind that passes its input on, and fails at a chosen batch."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import heterps as hps
from heterps import ops
from heterps.graph import OpKind, TensorType, register_kind
from heterps.graph.kinds import REQUIRED
from heterps.kernels import Call, Kernel, OpCost, OpWork, register_kernel

KIND = "tests.raising"
CAUSE = "the sky fell"
_calls = {"forward": itertools.count(1), "backward": itertools.count(1)}


def _cost(work: OpWork) -> OpCost:
    return OpCost(1e6 * work.numbers(work.output), work.bytes(work.output), work.bytes(work.output))


def _count(call: Call, way: str) -> None:
    if call.attrs["way"] == way and next(_calls[way]) >= call.attrs["at"]:
        raise ZeroDivisionError(CAUSE)


def _forward(call: Call) -> None:
    _count(call, "forward")
    call.y[...] = call.xs[0]


def _backward(call: Call) -> None:
    _count(call, "backward")
    call.dxs[0][...] = call.dy


def _type(attrs: Mapping[str, Any], inputs: tuple[TensorType, ...]) -> TensorType:
    return inputs[0]


register_kind(OpKind(KIND, _type, attrs={"at": REQUIRED, "way": "forward"}))
register_kernel(KIND, Kernel(_cost, _forward, _backward))


def start_counting() -> None:
    """Count batches from the beginning."""
    _calls.update(forward=itertools.count(1), backward=itertools.count(1))


def graph(at: int, way: str = "forward") -> hps.Graph:
    ids, y = ops.input("ids", shape=(3,), dtype="uint64"), ops.input("y")
    h = ops.relu(ops.dense(ops.concat(ops.lookup(ids, table="t", dim=4), name="features"), 8, name="fc"), name="h")
    bad = ops.build(KIND, h, name="bad", at=at, way=way)
    return hps.Graph(loss=ops.logloss(ops.dense(bad, 1, name="out"), y, name="loss"))


def data(rows: int = 2000) -> hps.Dataset:
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 200, (rows, 3)).astype(np.uint64)
    return hps.arrays({"ids": ids, "y": (ids[:, 0] % 2).astype(np.float32)}, split_cost=500)


def plan(graph: hps.Graph, stages: int, pools: Sequence[str] = ("io", "pull", "compute"), **rest: Any) -> hps.Plan:
    """1: everything where data is read; 2: compute apart; 3: read, pull, compute; 4: compute in two, the op last;
    5: compute in three, there and back.
    """
    read, middle, last = pools
    fused = hps.Plan.fused(graph, batch_size=50, **rest)
    io, *others = (part.ops for part in hps.partition(graph).parts)
    compute = [op for part in others for op in part]
    if stages == 1:
        return fused
    cut = compute.index("bad") if "bad" in compute else compute.index("out")
    reads = [op for op in io if op in ("ids", "y")]
    pieces = {
        2: [(read, io), (last, compute)],
        3: [(read, reads), (middle, [op for op in io if op not in reads]), (last, compute)],
        4: [(read, io), (middle, compute[:cut]), (last, compute[cut:])],
        5: [(read, io), (last, compute[: cut - 1]), (middle, compute[cut - 1 : cut]), (last, compute[cut:])],
    }[stages]
    (stage,), pool = fused.stages, fused.pools[0]
    made = tuple(replace(stage, name=f"s{i}", layers=(), ops=tuple(o), pool=p) for i, (p, o) in enumerate(pieces))
    described = tuple(replace(pool, name=name) for name in dict.fromkeys(("server", *(name for name, _ in pieces))))
    return replace(fused, stages=made, pools=described, shard_pool="server")
