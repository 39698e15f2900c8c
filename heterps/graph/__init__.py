"""The model as a value: Op, Graph, legality, JSON. No arrays."""

from heterps.graph import ops
from heterps.graph.graph import Graph, Op
from heterps.graph.kinds import REQUIRED, OpKind, Param, kind, kinds, register_kind
from heterps.graph.tensor import Tensor
from heterps.graph.types import Form, TensorType

__all__ = [
    "REQUIRED",
    "Form",
    "Graph",
    "Op",
    "OpKind",
    "Param",
    "Tensor",
    "TensorType",
    "kind",
    "kinds",
    "ops",
    "register_kind",
]
