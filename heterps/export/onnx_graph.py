"""The dense part of a model as ONNX: everything but the tables.

Its inputs are columns of the data (``[samples, ...]`` float32) and what lookups yield, under their ops' names: vectors
that are pooled already (``[samples, dim]``), one for each slot (``[samples, slots, dim]``), or lists padded to the
longest (``[samples, longest, dim]``) with their lengths beside (``NAME.lengths``, int64). Its results are
``prediction`` and the graph's outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.errors import GraphError
from heterps.export.onnx_builder import OnnxBuilder
from heterps.export.onnx_ops import OPS
from heterps.graph import Graph
from heterps.graph.types import Form, TensorType
from heterps.serving.needs import FED, PREDICTION, needed_for
from heterps.stages.lowering import lower
from heterps.version import __version__

__all__ = ["dense_to_onnx"]

_ONE_NUMBER = ("logloss", "nce", "sampled_softmax", "in_batch_softmax")  # losses that predict one for each sample


def dense_to_onnx(graph: Graph, dense: Mapping[str, npt.NDArray[np.float32]]) -> bytes:
    """Return the dense part of a model as the bytes of an ONNX file.

    Parameters
    ----------
    graph
        The model.
    dense
        Parameters by ``op.param``.

    Raises
    ------
    GraphError
        An op has no meaning in ONNX: the message names it.
    ImportError
        The package ``onnx`` is not there.
    """
    onnx = _package()
    lowered = lower(graph).graph
    outputs = {
        name: op
        for name, op in graph.outputs.items()
        if lowered[op].type.form is Form.DENSE and lowered[op].kind not in FED
    }
    needed = set().union(*(needed_for(lowered, name) for name in (PREDICTION, *outputs.values())))
    to = OnnxBuilder(lowered, dense, onnx)
    for op in lowered:
        if op.name not in needed:
            continue
        if op.kind in FED:
            to.feed(op)
        elif op.kind in OPS:
            to.names[op.name] = OPS[op.kind](to, op)
        else:
            raise GraphError(
                f"op {op.name!r} of kind {op.kind!r} has no meaning in ONNX; give it one with "
                "heterps.export.register_onnx, or export without ONNX"
            )
    wanted = {PREDICTION: lowered.loss, **outputs}
    return to.model({name: (to.names[op], _type(lowered, op)) for name, op in wanted.items()}, f"heterps {__version__}")


def _type(graph: Graph, name: str) -> TensorType:
    """Return the type of an op's result; of the loss that of its prediction: one number, or what it compares."""
    op = graph[name]
    if name != graph.loss:
        return op.type
    return TensorType(() if op.kind in _ONE_NUMBER else graph[op.inputs[0]].type.shape)


def _package() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ImportError("ONNX files need the package onnx: pip install 'heterps[onnx]'") from error
    return onnx
