"""The dense part as ONNX gives what a session predicts: every op kind once, every model of the zoo."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps import models, ops
from heterps.errors import CheckpointError, GraphError
from heterps.export.onnx_ops import OPS
from heterps.graph import kinds
from heterps.ragged import Ragged
from heterps.runtime.measure.measuring import synthetic_batch

ROWS = 12
# Kinds that are no part of the dense one: what is fed, and ids that only training draws.
DRAWN = {"gather_pool", "negative_sampling"}
OUTSIDE = {"input", "lookup", "pull", *DRAWN}
BUILT_IN = {"resnet": {"width": 4, "shape": (16, 16, 3)}, "dlrm": {}, "wide_deep": {"hidden": (16,)}}


def every_kind() -> hps.Graph:
    """A graph whose outputs are one op of each kind, over vectors, matrices, images and lists."""
    v, m, y = ops.input("v", (6,)), ops.input("m", (3, 4)), ops.input("y")
    image = ops.input("image", (7, 6, 4))
    ids = ops.input("ids", dtype="uint64", ragged=True)
    seen = ops.lookup(ids, table="seen", dim=6, name="seen")
    _, last = ops.split(m, (1, 2), axis=0)
    found: dict[str, ops.Tensor] = {
        "matmul": ops.matmul(m, m, transpose_b=True),
        "product": ops.matmul(ops.matmul(m, m, transpose_b=True), m),
        "wide": ops.mul(ops.sub(m, ops.sum(m, axis=1, keepdims=True)), ops.split(v, (4, 2))[0]),
        "number": ops.add(ops.mean(m), ops.sum(v), ops.sum(m)),
        "joined": ops.concat(m, last, axis=0),
        "flat": ops.concat(m, v, ops.mean(v)),
        "reshaped": ops.reshape(m, (2, -1)),
        "softmax": ops.softmax(m, axis=0),
        "layer_norm": ops.layer_norm(m),
        "dots": ops.dot_interaction(v, ops.reshape(ops.concat(m), (2, 6))),
        "fm": ops.fm(m),
        "cross": ops.cross(v, ops.cross(v, v, rank=2)),
        "gelu": ops.gelu(v),
        "prelu": ops.prelu(m),
        "dice": ops.dice(v),
        "tanh": ops.tanh(ops.sigmoid(ops.relu(ops.dropout(v, 0.5)))),
        "cosine": ops.cosine(m, ops.sub(m, ops.softmax(m))),
        "unit": ops.l2_normalize(m),
        "top": ops.top_k(v, 3),
        "where": ops.top_k_indices(v, 3),
        "conv": ops.conv2d(image, 6, (3, 2), stride=(2, 1), padding=1, groups=2),
        "plain_conv": ops.conv2d(image, 2, 1, bias=False),
        "max_pool": ops.max_pool(image, 3, stride=2, padding=1),
        "avg_pool": ops.avg_pool(image, 2, stride=2, padding=1),
        "batch_norm": ops.batch_norm(image),
        "dense": ops.dense(m, 5, bias=False),
        "list_mean": ops.sequence_mean(seen),
        "list_sum": ops.sequence_sum(seen),
        "list_last": ops.sequence_last(seen),
        **{
            f"attention_{len(hidden)}_{normalise}": ops.attention(v, seen, hidden=hidden, normalise=normalise)
            for hidden in ((), (5, 3))
            for normalise in (False, True)
        },
    }
    return hps.Graph(loss=ops.logloss(ops.dense(found["flat"], 1), y), outputs=found)


def batch(rng: np.random.Generator) -> dict[str, Any]:
    lists = Ragged.from_lists([rng.integers(0, 30, n) for n in rng.integers(0, 5, ROWS)])
    shapes = {"v": (6,), "m": (3, 4), "image": (7, 6, 4)}
    columns: dict[str, Any] = {
        name: rng.normal(size=(ROWS, *shape)).astype(np.float32) for name, shape in shapes.items()
    }
    return {**columns, "ids": lists, "y": (rng.random(ROWS) < 0.5).astype(np.float32)}


def compared(graph: hps.Graph, columns: dict[str, Any], folder: Path) -> None:
    """Train a little, export, and compare what a session, NumPy and onnxruntime make of the same columns."""
    data = hps.arrays(columns)
    with hps.launch(hps.Plan.fused(graph, batch_size=8), engine="inline", mode="sync") as session:
        session.fit(data)
        session.export(folder, onnx="yes")
        names = ["prediction", *graph.outputs]
        wanted = session.predict(data, fetch=names)
    for engine in ("numpy", "onnx"):
        found = hps.Predictor(folder, engine)(columns, names)
        for name in names:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5, err_msg=f"{engine} {name}")


def test_every_kind_has_a_meaning_and_gives_what_a_session_does(tmp_path: Path) -> None:
    built_in = [kind for kind in kinds() if kind.infer.__module__.startswith("heterps.graph.")]
    assert {kind.name for kind in built_in} - OPS.keys() == OUTSIDE
    graph = every_kind()
    assert {kind.name for kind in built_in if not kind.loss} - {op.kind for op in graph} == {"pull", *DRAWN}
    compared(graph, batch(np.random.default_rng(5)), tmp_path)


def small(name: str) -> hps.Graph:
    build: Callable[..., hps.Graph] = getattr(models, name)
    return build(**BUILT_IN.get(name, {}))


@pytest.mark.parametrize(
    "name",
    [name if name == "matchnet" else pytest.param(name, marks=pytest.mark.full) for name in models.__all__],
)
def test_models_of_the_zoo(name: str, tmp_path: Path) -> None:
    graph = small(name)
    made, inputs = synthetic_batch(graph, ROWS), {op.name for op in graph.inputs}
    columns = {name: column for name, column in made.items() if name in inputs}
    if "y" in columns and columns["y"].dtype == np.float32:
        columns["y"] = (columns["y"] > 0).astype(np.float32)
    compared(graph, columns, tmp_path)


def test_what_has_no_meaning_in_onnx_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPS, "tanh")
    x, y = ops.input("x", (2,)), ops.input("y")
    graph = hps.Graph(loss=ops.logloss(ops.dense(ops.tanh(x, name="bent"), 1), y))
    with hps.launch(hps.Plan.fused(graph, batch_size=4), engine="inline") as session:
        with pytest.raises(GraphError, match="op 'bent' of kind 'tanh' has no meaning in ONNX"):
            session.export(tmp_path / "a", onnx="yes")
        session.export(tmp_path / "b")
        session.export(tmp_path / "c", onnx="no")
    with pytest.raises(CheckpointError, match="no ONNX file: op 'bent'"):
        hps.Predictor(tmp_path / "b", "onnx")
    with pytest.raises(CheckpointError, match="no ONNX file: it was not wanted"):
        hps.Predictor(tmp_path / "c", "onnx")
    assert hps.Predictor(tmp_path / "b")({"x": np.ones((3, 2), np.float32)}).shape == (3,)
