"""What a kernel is: forward, backward and cost of one op kind, and the door through which kinds get one.

A kernel sees one :class:`Call`: where its inputs lie and which buffers to write. It returns nothing, keeps nothing, and
allocates nothing that grows with the batch except through :meth:`Call.scratch`. The contract:

- ``forward`` writes ``y`` completely. It may leave what backward needs in scratch.
- ``backward`` writes ``dxs[i]`` completely wherever it is not None, and every array in ``dparams``. The exception is
  the gradient of pulled rows or of ragged tensors, whose size only the batch knows: these are added to (the program
  zeroes them first).
- ``dy`` may be overwritten by backward only where ``owns_dy`` is set.
- All arrays are C-contiguous unless the kernel is registered with ``strided``; then the samples of any of them may lie
  apart (a piece of a wider buffer), each sample itself being contiguous.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace
from heterps.errors import GraphError, UnknownKindError
from heterps.graph import Graph, Op, kind
from heterps.kernels.cost import OpCost, OpWork
from heterps.own_modules import may_replace

__all__ = ["FUSED", "Call", "Kernel", "kernel", "kernels", "op_cost", "register_kernel", "take_over_kernel"]


class Call:
    """One op on one batch.

    Attributes
    ----------
    attrs
        The op's attributes.
    xp
        The array library of all arrays here.
    loops
        Whether compiled CPU loops may be used (NumPy arrays, not switched off).
    n
        Rows of this batch.
    xs, y
        Inputs and result ``[n, *shape]``. A ``pull`` input is a :class:`~heterps.kernels.ops.rows.Rows`, a ragged
        tensor a :class:`~heterps.kernels.ops.rows.Lists`. A loss has a 0-d ``y``.
    dxs, dy
        Gradients of inputs (None where nobody wants one) and of the result. For a loss ``dy`` is None and means 1.
    params, dparams
        Dense parameters and their gradients by name.
    train
        Whether this batch is trained on (dropout).
    seed
        64-bit number for this op and batch: the only source of randomness.
    owns_dy
        Whether backward may overwrite ``dy``.
    dx_columns
        The columns of the first input that ``dxs[0]`` stands for; None means all of them.
    placed, dplaced
        Concat only: inputs that were written into their piece of ``y`` to begin with, and gradients that are their
        piece of ``dy``; nothing has to be copied for them.
    kept
        Whatever a kernel worked out about the buffers of this call, which are the same from batch to batch.
    """

    __slots__ = (
        "_bases",
        "_empty",
        "_views",
        "attrs",
        "dparams",
        "dplaced",
        "dx_columns",
        "dxs",
        "dy",
        "kept",
        "loops",
        "n",
        "owns_dy",
        "params",
        "placed",
        "seed",
        "train",
        "xp",
        "xs",
        "y",
    )

    def __init__(
        self,
        attrs: Mapping[str, Any],
        xp: Namespace,
        n: int,
        *,
        loops: bool,
        bases: dict[str, Array] | None = None,
        empty: Callable[..., Array] | None = None,
    ) -> None:
        self.attrs, self.xp, self.n = attrs, xp, n
        self.loops = loops and xp is np
        self.xs: list[Any] = []
        self.y: Any = None
        self.dxs: list[Any] = []
        self.dy: Any = None
        self.params: Mapping[str, Array] = {}
        self.dparams: Mapping[str, Array] = {}
        self.train, self.seed, self.owns_dy = True, 0, False
        self.dx_columns: slice | None = None
        self.placed: frozenset[int] = frozenset()
        self.dplaced: frozenset[int] = frozenset()
        self.kept: dict[Any, Any] = {}
        self._bases = {} if bases is None else bases
        self._empty = xp.empty if empty is None else empty  # that makes them
        self._views: dict[str, tuple[tuple[int, ...], Array]] = {}

    def scratch(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return a buffer of that shape which keeps its contents until the next forward; made once, then reused."""
        known = self._views.get(name)
        if known is not None and known[0] == shape and known[1].dtype == dtype:
            return known[1]
        size = 1
        for length in shape:
            size *= length
        base = self._bases.get(name)
        if base is None or base.size < size or base.dtype != dtype:
            grown = size if base is None else max(size, base.size + base.size // 4)
            base = self._bases[name] = self._empty((grown,), dtype)
        view = base[:size].reshape(shape)
        self._views[name] = (shape, view)
        return view


def _nothing(call: Call) -> None:
    """Kinds that only name data (input, pull) compute nothing: their values are fed."""


@dataclass(frozen=True)
class Kernel:
    """Forward, backward and cost of one op kind.

    Parameters
    ----------
    forward, backward
        See the module's text. None for kinds whose values are fed (files and tables).
    cost
        ``cost(work) -> OpCost`` of forward and backward together.
    predict
        Losses only: writes the prediction (probabilities, values) for the inputs to ``call.y``, without a label.
    prediction
        Losses only: returns the prediction that the last ``forward`` or ``predict`` left.
    strided
        Up to how many per-sample dimensions the samples of an array may lie apart in memory (0: never).
    partial
        Whether backward honours ``dx_columns``, writing only those columns of ``dxs[0]``.
    unread
        Positions of inputs that are named for the sake of types only and never read (they need not be fed).
    random
        Whether the kernel draws numbers and wants ``call.seed`` set for every batch.
    draw
        Kinds without ``forward`` that make ids: ``draw(attrs, rows, seed)`` returns them. It runs where data is read,
        since rows can be pulled only when the ids are known; programs are fed the result like a column.
    together
        Forward and backward of several calls that follow each other, with the results of one after another.
    """

    cost: Callable[[OpWork], OpCost]
    forward: Callable[[Call], None] | None = None
    backward: Callable[[Call], None] = _nothing
    predict: Callable[[Call], None] | None = None
    prediction: Callable[[Call], Array] | None = None
    strided: int = 0
    unread: tuple[int, ...] = ()
    random: bool = False
    partial: bool = False
    draw: Callable[[Mapping[str, Any], int, int], npt.NDArray[Any]] | None = None
    together: tuple[Callable[[Sequence[Call]], None], Callable[[Sequence[Call]], None]] | None = None


_KERNELS: dict[str, Kernel] = {}
FUSED: dict[str, Kernel] = {}  # kernels of several ops at once, by the name of the fusion


def register_kernel(kind_name: str, new: Kernel) -> Kernel:
    """Give a registered op kind its kernel. Only the module that gave it one may give it another."""
    kind(kind_name)  # an unknown kind is named with its nearest relative
    old = _KERNELS.setdefault(kind_name, new)
    if new is not old and not may_replace(new.forward or new.cost, old.forward or old.cost):
        raise GraphError(f"op kind {kind_name!r} has a kernel already")
    _KERNELS[kind_name] = new
    return new


def take_over_kernel(kind_name: str, new: Kernel) -> None:
    """Give a kind the kernel that came with it from another process."""
    _KERNELS[kind_name] = new


def kernel(kind_name: str) -> Kernel:
    """Look the kernel of a kind up."""
    if kind_name not in _KERNELS:
        near = difflib.get_close_matches(kind_name, _KERNELS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownKindError(
            f"op kind {kind_name!r} has no kernel{hint}; give it one with heterps.kernels.register_kernel"
        )
    return _KERNELS[kind_name]


def kernels() -> Mapping[str, Kernel]:
    """All registered kernels by kind."""
    return dict(sorted(_KERNELS.items()))


def op_cost(graph: Graph, op: Op | str, batch_size: int, unique_fraction: float = 1.0) -> OpCost:
    """Return what one op costs on one batch, forward and backward together.

    Parameters
    ----------
    graph, op
        The op and the graph that it belongs to.
    batch_size
        Rows of the batch.
    unique_fraction
        Unique ids per looked-up position, which decides how many table rows move.
    """
    op = graph[op] if isinstance(op, str) else op
    types = tuple(graph[name].type for name in op.inputs)
    return kernel(op.kind).cost(OpWork(op.attrs, types, op.type, graph.params(op), batch_size, unique_fraction))
