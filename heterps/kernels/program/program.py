"""A graph, or a part of one, compiled once into a list of kernel calls over reused buffers.

One Program belongs to one thread. Everything it returns is a view of its buffers, good until the next ``forward`` (for
results) or ``backward`` (for gradients).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heterps.device.arrays import Array, Namespace, to_device
from heterps.errors import DataError, GraphError
from heterps.graph import Graph
from heterps.graph.types import Form
from heterps.kernels.jit import unlocked
from heterps.kernels.kernel import Call
from heterps.kernels.ops.rows import Lists, Rows
from heterps.kernels.program.bound import BoundCalls
from heterps.kernels.program.buffers import Buffers
from heterps.kernels.program.fusion import fuse
from heterps.kernels.program.param_layout import ParamLayout
from heterps.kernels.program.steps import Scope, scope_of

__all__ = ["Feed", "Gradients", "Program"]

KEPT_VIEWS = 24  # flat vectors whose views are remembered: as many as rings of parameters and gradients hold
Feed = Any  # an array, a Ragged or Lists, or Rows
Params = Array | Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Gradients:
    """What backward yields.

    Parameters
    ----------
    inputs
        Gradients of fed tensors that anybody upstream wants: activations ``[n, ...]``, and ``[unique, width]`` for each
        pull.
    dense
        All dense parameters as one flat vector in the program's layout.
    """

    inputs: Mapping[str, Array]
    dense: Array


class Program:
    """Runs ops of a lowered graph, forward and backward.

    Parameters
    ----------
    graph
        A lowered graph (``lookup`` replaced by ``pull`` and ``gather_pool``).
    ops
        Names of the ops to run (a Stage); None runs all.
    batch_size
        Largest number of rows; smaller batches use the front of the buffers.
    dtype
        ``"float32"``; ``"float64"`` for gradient checks.
    xp
        Array library to run on.
    loops
        Whether compiled CPU loops may be used; False takes the array functions that devices take.
    fused
        Whether neighbouring ops may be fused (:mod:`heterps.kernels.program.fusion`).

    Attributes
    ----------
    feeds
        Names of what :meth:`forward` must be given.
    outputs
        Names of what it returns: tensors read outside, named outputs, the loss.
    given
        Names of outputs whose gradient :meth:`backward` must be given.
    layout
        Where the dense parameters of these ops lie in flat vectors.
    """

    def __init__(
        self,
        graph: Graph,
        ops: Iterable[str] | None = None,
        *,
        batch_size: int,
        dtype: str = "float32",
        xp: Namespace = np,
        loops: bool = True,
        fused: bool = True,
    ) -> None:
        if batch_size < 1:
            raise GraphError(f"batch_size must be at least 1, got {batch_size}")
        names = [op.name for op in graph.ops] if ops is None else list(ops)
        self.graph, self.batch_size, self.xp, self.dtype = graph, batch_size, xp, np.dtype(dtype)
        self.scope: Scope = fuse(scope_of(graph, names)) if fused else scope_of(graph, names)
        self.feeds, self.outputs, self.given = self.scope.feeds, self.scope.outputs, self.scope.given
        self.layout = ParamLayout(graph, names)
        self._buffers = Buffers(self.scope, batch_size, self.dtype, xp, loops=loops)
        self._bound: dict[int, BoundCalls] = {}
        self._views: dict[int, tuple[Array, dict[str, dict[str, Array]]]] = {}
        self._gradient: Array = xp.zeros(self.layout.size, self.dtype)
        self._last: BoundCalls | None = None
        self._spent = dict.fromkeys(("gather", "scatter"), 0.0)
        self._floats = {name: self._is_float(name) for name in self.feeds}

    def _is_float(self, name: str) -> bool:
        return self.graph[name].type.dtype.startswith("float")

    @cached_property
    def _marks(self) -> dict[str, int]:
        """By step: from where on all gradients are complete when backward is done with it. Those before it are not."""
        ends = {piece.op: piece.span.stop for piece in self.layout}
        marks, low = {}, 0
        for step in self.scope.steps:
            marks[step.name] = low
            low = max([low, *(ends.get(op, 0) for op in step.ops)])
        return marks

    def forward(
        self, feeds: Mapping[str, Feed], params: Params, *, train: bool = True, seed: int = 0
    ) -> dict[str, Array]:
        """Run all ops on one batch.

        Parameters
        ----------
        feeds
            A value for every name in :attr:`feeds`. Without the label the loss is left out (prediction only).
        params
            The flat parameter vector, or ``{"op.param": array}``.
        train
            Whether dropout drops.
        seed
            64 bits for this batch, see :func:`~heterps.kernels.random.batch_seed`.

        Returns
        -------
        dict
            The :attr:`outputs` by name.
        """
        n = self._rows(feeds)
        bound = self._bind(n)
        bound.set_params(self._param_views(params))
        missing = bound.set_feeds({name: self._feed(name, feeds[name], n) for name in self.feeds if name in feeds})
        loss_only = self._check_missing(bound, missing)
        bound.set_mode(seed, train=train)
        bound.forward(predict=loss_only)
        self._last = bound
        return bound.results()

    def backward(
        self,
        grads: Mapping[str, Array] | None = None,
        out: Array | None = None,
        rows: Mapping[str, Array] | None = None,
        reached: Callable[[int], None] | None = None,
    ) -> Gradients:
        """Run backward for the batch of the last :meth:`forward`.

        Parameters
        ----------
        grads
            Gradients of the outputs in :attr:`given`; none where the loss is computed here.
        out
            Flat vector to write dense gradients to; None uses one of the program's own.
        rows
            Arrays ``[unique, width]`` to write the gradients of pulls to, by name; they may be the pulled values
            themselves, which backward does not read. None uses the program's own.
        reached
            Called now and then with a place in the flat vector: dense gradients from there on are complete.
        """
        bound = self._ran()
        grads = grads or {}
        lacking = [name for name in self.given if name not in grads]
        if lacking:
            raise GraphError(f"backward needs the gradient of {lacking[0]!r}, which is read outside this program")
        dense = self._gradient if out is None else self._writable(out)
        bound.set_dparams(self._param_views(dense))
        given = {name: to_device(grads[name], self.xp, self.dtype) for name in self.given}
        if reached is None:
            bound.backward(given, rows or {})
        else:
            marks = self._marks
            bound.backward(given, rows or {}, lambda step: reached(marks[step]))
        return Gradients(bound.input_gradients(), dense)

    def _writable(self, out: Array) -> Array:
        """Refuse a vector that could only be written as a copy."""
        if not isinstance(out, self.xp.ndarray) or out.dtype != self.dtype:
            raise GraphError(f"out must be a {self.dtype} array on the program's device, got {type(out).__name__}")
        if self.xp is np and not (out.flags.writeable and out.flags.c_contiguous):
            raise GraphError("out must be writable and contiguous")
        return out

    @property
    def loss(self) -> float:
        """Loss of the last batch."""
        return float(self._ran().loss())

    @property
    def loss_array(self) -> Array:
        """The same where it was computed, without waiting for it."""
        return self._ran().loss()

    def results(self) -> dict[str, Array]:
        """Return what the last :meth:`forward` returned."""
        return self._ran().results()

    @property
    def prediction(self) -> Array:
        """What the loss's inputs predict for the last batch: probabilities, or values."""
        return self._ran().prediction()

    @property
    def has_run(self) -> bool:
        """Whether there was a batch."""
        return self._last is not None

    def _ran(self) -> BoundCalls:
        if self._last is None:
            raise GraphError("the program has not run forward yet")
        return self._last

    def _bind(self, n: int) -> BoundCalls:
        """Calls over the first n rows of all buffers. The full size and the last odd size are kept."""
        bound = self._bound.get(n)
        if bound is None:
            self._bound = {k: v for k, v in self._bound.items() if k == self.batch_size}
            bound = self._bound[n] = BoundCalls(self._buffers, n, self._spent)
        return bound

    def _rows(self, feeds: Mapping[str, Feed]) -> int:
        """Rows of this batch, read from the first feed."""
        for name in self.feeds:
            if name in feeds:
                n = self._length(name, feeds[name])
                if n > self.batch_size:
                    raise DataError(f"feed {name!r} has {n} rows, the program was made for {self.batch_size} at most")
                return n
        raise DataError(f"no feed was given; the program needs {', '.join(self.feeds)}")

    def _length(self, name: str, value: Feed) -> int:
        if isinstance(value, Rows):
            op = self.graph[name]
            offsets, ids = value.offsets_of(0), self.graph[op.inputs[0]].type
            return len(offsets) - 1 if offsets is not None else value.inverse[0].size // math.prod(ids.shape)
        return len(value.offsets) - 1 if hasattr(value, "offsets") else int(value.shape[0])

    def _feed(self, name: str, value: Feed, n: int) -> Any:
        """Bring a value to the device and the program's float type (no copy where it is there already)."""
        if self._length(name, value) != n:
            raise DataError(f"feed {name!r} has {self._length(name, value)} rows, others have {n}")
        if isinstance(value, Rows):
            return self._rows_feed(value)
        dtype = self.dtype if self._floats[name] else None
        if self.graph[name].type.form is Form.RAGGED:
            return Lists(self._array(value.values, dtype), self._array(value.offsets, np.int64))
        array = self._array(value, dtype)
        shape = self.graph[name].type.shape
        if array.shape[1:] != shape:
            if math.prod(array.shape[1:]) != math.prod(shape):
                raise DataError(f"feed {name!r} has shape {array.shape[1:]} per sample, expected {shape}")
            array = array.reshape(n, *shape)
        return array

    def _rows_feed(self, value: Rows) -> Rows:
        values = self._array(value.values, self.dtype)
        inverse = tuple(self._array(i, np.int32) for i in value.inverse)
        offsets = tuple(None if o is None else self._array(o, np.int64) for o in value.offsets)
        return Rows(values, inverse, offsets, value.ids)

    def _array(self, value: Array, dtype: Any) -> Array:
        if self.xp is not np:
            return to_device(value, self.xp, dtype)
        if (dtype is not None and value.dtype != dtype) or not (value.flags.c_contiguous and value.flags.aligned):
            return np.require(value, dtype, ("C", "A"))
        return value if value.flags.writeable else unlocked(value)

    def _check_missing(self, bound: BoundCalls, missing: list[str]) -> bool:
        """Whether only the loss lacks feeds, so that the rest can run; other gaps are an error."""
        if not missing:
            return False
        needed = {i for step in self.scope.steps if step.name != self.graph.loss for i in step.inputs}
        lacking = [name for name in missing if name in needed or self.graph.loss not in self.outputs]
        logits = self.graph[self.graph.loss].inputs[0]
        if lacking or logits in missing:
            raise DataError(f"forward lacks the feed {(lacking or [logits])[0]!r}")
        return True

    def _param_views(self, params: Params) -> Mapping[str, Mapping[str, Array]]:
        """Views of a flat vector; those of the last few vectors are kept, since buffers come in small rings."""
        if isinstance(params, Mapping):
            views: dict[str, dict[str, Array]] = {}
            for piece in self.layout:
                views.setdefault(piece.op, {})[piece.param] = to_device(params[piece.name], self.xp, self.dtype)
            return views
        known = self._views.get(id(params))
        if known is not None and known[0] is params:
            return known[1]
        flat = self._array(params, self.dtype)
        made = self.layout.views(flat)
        in_place = self.xp is np and params.dtype == self.dtype and params.flags.c_contiguous
        if flat is params or in_place:  # a copy would not see what is written to the vector later
            if len(self._views) >= KEPT_VIEWS:
                self._views.clear()
            self._views[id(params)] = (params, made)
        return made

    def take_spent(self) -> dict[str, float]:
        """Return the seconds since the last call that went into ``gather`` (table rows to what ops read) and
        ``scatter`` (gradients back to rows): parts of forward and backward. On a device only the launches are timed.
        """
        spent = self._spent.copy()
        self._spent.update(dict.fromkeys(spent, 0.0))
        return spent

    @contextmanager
    def timed(self, spent: dict[str, float], clock: Callable[[], float]) -> Iterator[None]:
        """Measure each step in batches of the full size: seconds by ``"op forward"``, ``"op backward"``.

        Parameters
        ----------
        spent
            Seconds are added here.
        clock
            For example ``time.perf_counter`` or ``time.thread_time``; a device needs one that waits for it.
        """
        with self._bind(self.batch_size).timed(spent, clock):
            yield

    def calls(self) -> dict[str, Call]:
        """Return the calls of the last batch by step name, for tests and for looking inside."""
        return self._ran().calls
