"""The dense part of an exported model: the kernels that trained it, by NumPy's functions, or onnxruntime.

Both take columns of a batch and what lookups yielded, by name, and return one tensor. Neither compiles anything.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heterps.errors import GraphError
from heterps.graph import Graph
from heterps.kernels import Lists, Program
from heterps.serving.needs import FED, PREDICTION, needed_for

__all__ = ["MOST_ROWS", "DensePart", "NumpyPart", "OnnxPart"]

#: Rows that are computed at once: larger requests are taken in pieces, which keeps them in the cache.
MOST_ROWS = 256
Floats = npt.NDArray[np.float32]


class DensePart(Protocol):
    """Computes tensors of a model."""

    def run(self, wanted: str, feeds: Mapping[str, Any], rows: int) -> npt.NDArray[Any]:
        """Return a tensor (an op, or ``prediction``) for a batch; any thread may call."""


class NumpyPart:
    """Runs the kernels without their compiled loops.

    Parameters
    ----------
    graph
        Lowered.
    dense
        Parameters by ``op.param``.
    """

    def __init__(self, graph: Graph, dense: Mapping[str, Floats]) -> None:
        self._graph, self._dense = graph, dense
        self._own = threading.local()  # a Program belongs to one thread

    def run(self, wanted: str, feeds: Mapping[str, Any], rows: int) -> npt.NDArray[Any]:
        """Return a tensor for a batch."""
        program, flat = self._program(wanted, rows)
        given = {name: feeds[name] for name in program.feeds if name in feeds}
        results = program.forward(given, flat, train=False)
        return np.array(program.prediction if wanted == PREDICTION else results[wanted])

    def _program(self, wanted: str, rows: int) -> tuple[Program, Floats]:
        """Return the thread's program for one row, or that for many, and its parameters."""
        size = 1 if rows == 1 else MOST_ROWS
        known: dict[tuple[str, int], tuple[Program, Floats]] = self._own.__dict__.setdefault("programs", {})
        if (wanted, size) not in known:
            known[wanted, size] = self._made(wanted, size)
        return known[wanted, size]

    def _made(self, wanted: str, size: int) -> tuple[Program, Floats]:
        outputs = {} if wanted == PREDICTION else {wanted: wanted}
        graph = Graph.from_ops(self._graph.ops, self._graph.loss, outputs)
        needed = needed_for(graph, wanted)
        ops = [op.name for op in graph if op.name in needed and op.kind not in FED]
        program = Program(graph, ops, batch_size=size, loops=False)
        pieces = [self._dense[piece.name].reshape(-1) for piece in program.layout]
        return program, np.concatenate([np.empty(0, np.float32), *pieces])


class OnnxPart:
    """Runs the ONNX file by onnxruntime.

    Parameters
    ----------
    graph
        Lowered.
    data
        The bytes of the file.
    outputs
        Names of the graph's outputs by op.
    threads
        That one request may use.
    """

    def __init__(self, graph: Graph, data: bytes, outputs: Mapping[str, str], threads: int = 1) -> None:
        runtime = _package()
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self._session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        self._graph, self._outputs = graph, {op: name for name, op in outputs.items()} | {PREDICTION: PREDICTION}
        self._inputs = {each.name: each for each in self._session.get_inputs()}

    def run(self, wanted: str, feeds: Mapping[str, Any], rows: int) -> npt.NDArray[Any]:
        """Return a tensor for a batch; inputs that it does not need are zeros."""
        if wanted not in self._outputs:
            raise GraphError(
                f"the ONNX file yields {', '.join(self._outputs.values())}, not {wanted!r}; use engine='numpy'"
            )
        given: dict[str, npt.NDArray[Any]] = {}
        for name in self._inputs.keys() & feeds.keys():
            value = feeds[name]
            given |= _padded(name, value) if isinstance(value, Lists) else {name: self._shaped(name, value)}
        given |= {name: _zeros(each, rows) for name, each in self._inputs.items() if name not in given}
        (made,) = self._session.run([self._outputs[wanted]], given)
        return np.asarray(made)

    def _shaped(self, name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        dtype = np.float32 if self._graph[name].type.dtype.startswith("float") else np.int64
        return np.ascontiguousarray(value.reshape(len(value), *self._graph[name].type.shape), dtype)


def _padded(name: str, lists: Lists) -> dict[str, npt.NDArray[Any]]:
    lengths = np.diff(lists.offsets)
    longest = int(lengths.max(initial=1))
    out = np.zeros((len(lengths), longest, lists.values.shape[1]), np.float32)
    there = np.arange(longest) < lengths[:, None]
    out[there] = lists.values
    return {name: out, f"{name}.lengths": lengths}


def _zeros(each: Any, rows: int) -> npt.NDArray[Any]:
    shape = [rows if i == 0 else n if isinstance(n, int) else 1 for i, n in enumerate(each.shape)]
    return np.zeros(shape, np.int64 if "int64" in each.type else np.float32)


def _package() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("engine='onnx' needs the package onnxruntime: pip install 'heterps[onnx]'") from error
    return onnxruntime
