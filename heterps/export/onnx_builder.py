"""A graph of ONNX being built: nodes, constants, inputs. Sizes of samples are known, the number of samples is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.graph import Graph, Op
from heterps.graph.types import Form, TensorType

__all__ = ["IR_VERSION", "OPSET", "OnnxBuilder", "lengths_of"]

OPSET, IR_VERSION = 18, 9  # what runtimes of the last years read
Floats = npt.NDArray[np.float32]
_SAMPLES, _LONGEST = "samples", "longest"


def lengths_of(name: str) -> str:
    """Return the name of the input with the lengths of an input of padded lists."""
    return f"{name}.lengths"


class OnnxBuilder:
    """Collects what a model of ONNX is made of.

    Parameters
    ----------
    graph
        Lowered.
    dense
        Parameters by ``op.param``.
    onnx
        The package.

    Attributes
    ----------
    names
        Of the ONNX tensor for each op that was built.
    """

    def __init__(self, graph: Graph, dense: Mapping[str, Floats], onnx: Any) -> None:
        self.graph, self._dense, self._onnx = graph, dense, onnx
        self.names: dict[str, str] = {}
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.constants: dict[str, Any] = {}
        self._count = 0

    def node(self, kind: str, *inputs: str, name: str | None = None, **attrs: Any) -> str:
        """Add a node with one result; return the result's name."""
        return self.many(kind, inputs, 1, name, **attrs)[0]

    def many(self, kind: str, inputs: Sequence[str], results: int, name: str | None = None, **attrs: Any) -> list[str]:
        """Add a node with several results."""
        self._count += 1
        made = [name if name and i == 0 else f"{kind}_{self._count}_{i}" for i in range(results)]
        self.nodes.append(self._onnx.helper.make_node(kind, list(inputs), made, name=f"{kind}_{self._count}", **attrs))
        return made

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Return the name of a constant."""
        array = np.asarray(value, dtype)
        name = f"constant_{len(self.constants)}"
        self.constants[name] = self._onnx.numpy_helper.from_array(
            np.ascontiguousarray(array).reshape(array.shape), name
        )
        return name

    def numbers(self, *values: int) -> str:
        """Return the name of a constant of int64, for shapes and axes."""
        return self.constant(values, np.int64)

    def param(self, op: Op, name: str) -> Floats:
        """Return a dense parameter of an op."""
        return self._dense[f"{op.name}.{name}"]

    def has_param(self, op: Op, name: str) -> bool:
        """Whether an op has such a parameter."""
        return f"{op.name}.{name}" in self._dense

    def weight(self, op: Op, name: str) -> str:
        """Return a parameter as a constant."""
        return self.constant(self.param(op, name))

    def reshape(self, x: str, *shape: int) -> str:
        """Give every sample another shape."""
        return self.node("Reshape", x, self.numbers(-1, *shape))

    def reduce(self, kind: str, x: str, axes: Sequence[int], keepdims: bool = False) -> str:
        """Reduce over axes, the samples' being 0."""
        if not axes:
            return x
        return self.node(kind, x, self.numbers(*axes), keepdims=int(keepdims))

    def feed(self, op: Op) -> None:
        """Make the result of an op an input: a column of the data, or rows that were looked up."""
        onnx, kind = self._onnx.helper, self._onnx.TensorProto
        element = kind.FLOAT if op.type.dtype.startswith("float") else kind.INT64
        lists = op.type.form is Form.RAGGED
        shape = [_SAMPLES, *((_LONGEST,) if lists else ()), *op.type.shape]
        self.inputs.append(onnx.make_tensor_value_info(op.name, element, shape))
        self.names[op.name] = op.name
        if lists:
            self.inputs.append(onnx.make_tensor_value_info(lengths_of(op.name), kind.INT64, [_SAMPLES]))

    def mask(self, history: str, name: str, *, last: bool = False) -> str:
        """Return 1 for elements of padded lists that are there (or only for the last of each), else 0: [n, longest]."""
        longest = self.node("Gather", self.node("Shape", history), self.constant(1, np.int64), axis=0)
        places = self.node("Range", self.constant(0, np.int64), longest, self.constant(1, np.int64))
        lengths = self.node("Unsqueeze", lengths_of(name), self.numbers(1))
        if last:
            hit = self.node("Equal", places, self.node("Sub", lengths, self.numbers(1)))
        else:
            hit = self.node("Less", places, lengths)
        return self.node("Cast", hit, to=self._onnx.TensorProto.FLOAT)

    def model(self, outputs: Mapping[str, tuple[str, TensorType]], about: str) -> bytes:
        """Return the finished model; ``outputs`` are names, and the tensor and type of each."""
        onnx = self._onnx
        results = []
        for name, (tensor, type_) in outputs.items():
            self.node("Identity", tensor, name=name)
            kind = onnx.TensorProto.INT64 if type_.dtype == "int64" else onnx.TensorProto.FLOAT
            results.append(onnx.helper.make_tensor_value_info(name, kind, [_SAMPLES, *type_.shape]))
        graph = onnx.helper.make_graph(self.nodes, "heterps", self.inputs, results, list(self.constants.values()))
        imports = [onnx.helper.make_opsetid("", OPSET)]
        made = onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION, producer_name=about)
        onnx.checker.check_model(made)
        return bytes(made.SerializeToString())
