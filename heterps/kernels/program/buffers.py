"""Memory of a program: one buffer per result and per gradient, laid out so that concats copy as little as possible.

- A tensor that a concat reads is written straight into its piece of the concat's buffer, if its maker and all readers
  can work with samples that lie apart.
- Its gradient is that piece of the concat's gradient, if the concat is the first to contribute backwards; otherwise the
  piece is added to it without a copy in between.
- Columns of a concat that nobody wants a gradient for (raw numbers) are left out of the gradient altogether, if the
  concat is read by layers that can leave them out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heterps.device.arrays import Array, Namespace
from heterps.graph.types import Form
from heterps.kernels.program.arena import Arena
from heterps.kernels.program.steps import Scope, Step

__all__ = ["Buffers"]


class Buffers:
    """Buffers for ``batch_size`` rows; programs for fewer rows use their fronts.

    Attributes
    ----------
    values, gradients
        By tensor name; None (or absent) where only the batch knows the size.
    placed
        By concat step: the inputs that lie in its buffer.
    pieces
        By (concat step, input): that input's piece of the concat's gradient, where it is used without a copy.
    columns
        By tensor name: the columns that its gradient is restricted to.
    empty
        Makes arrays.
    """

    def __init__(self, scope: Scope, batch_size: int, dtype: np.dtype[Any], xp: Namespace, *, loops: bool) -> None:
        self.scope, self.batch_size, self.dtype, self.xp, self.loops = scope, batch_size, dtype, xp, loops
        self.empty = Arena().empty if xp is np else xp.empty
        self._makers = {step.name: step for step in scope.steps}
        self._readers = {name: scope.consumers(name) for name in {*scope.feeds, *self._makers}}
        self.values: dict[str, Array | None] = {}
        self.placed: dict[str, frozenset[int]] = {}
        self.gradients: dict[str, Array] = {}
        self.pieces: dict[tuple[str, int], Array] = {}
        self.columns: dict[str, slice] = {}
        self.scratch: dict[str, dict[str, Array]] = {step.name: {} for step in scope.steps}
        self._spare: dict[tuple[str, int], Array] = {}
        self._row_gradients: dict[str, Array] = {}
        for step in reversed(scope.steps):  # a concat before what lies in it
            self._lay_out_value(step)
            self._lay_out_gradient(step.name)
        for name in scope.feeds:
            self._lay_out_gradient(name)

    # results

    def _lay_out_value(self, step: Step) -> None:
        if step.name not in self.values:
            self.values[step.name] = self._make(step.name)
        if not _joins_columns(self.scope, step):
            return
        here = frozenset(i for i, name in enumerate(step.inputs) if self._can_lie_in(step, name))
        ranges = _ranges(self.scope, step)
        for i in here:
            name = step.inputs[i]
            self.values[name] = self._piece(self.values[step.name], ranges[i], name)
        self.placed[step.name] = here

    def _can_lie_in(self, step: Step, name: str) -> bool:
        maker = self._makers.get(name)
        if maker is None or name in self.values or name in self.scope.outputs or step.inputs.count(name) > 1:
            return False
        others = [reader for reader, _ in self._readers[name] if reader is not step]
        return all(self._takes_strides(s, name) for s in [maker, *others])

    def _takes_strides(self, step: Step, name: str) -> bool:
        """Whether a step can work with samples of a tensor that lie apart."""
        return step.kernel.strided >= max(len(self.scope.type(name).shape), 1)

    def _piece(self, whole: Array, columns: tuple[int, int], name: str) -> Array:
        low, high = columns
        return whole[:, low:high].reshape(self.batch_size, *self.scope.type(name).shape)

    def _make(self, name: str) -> Array | None:
        type_ = self.scope.type(name)
        if type_.form is Form.SCALAR:
            return self.xp.zeros((), self.dtype)
        if type_.form is Form.DENSE:
            dtype = self.dtype if type_.dtype.startswith("float") else type_.dtype
            return self.empty((self.batch_size, *type_.shape), dtype)
        return None  # ragged: made by the kernel, since only the batch knows the size

    # gradients

    def _lay_out_gradient(self, name: str) -> None:
        if name not in self.scope.wanted or self.scope.type(name).form is not Form.DENSE:
            return
        step = self._makers.get(name)
        joins = step is not None and _joins_columns(self.scope, step)
        shared = [i for i in range(len(step.inputs)) if self._shares(step, i)] if joins and step else []
        if name not in self.gradients:
            self._narrow(name, step, shared)
            width = self.columns.get(name)
            shape = self.scope.type(name).shape if width is None else (width.stop - width.start,)
            self.gradients[name] = self.empty((self.batch_size, *shape), self.dtype)
        if step is not None:
            self._share(step, shared)

    def _share(self, step: Step, shared: list[int]) -> None:
        start = self.columns[step.name].start if step.name in self.columns else 0
        for i in shared:
            source, (low, high) = step.inputs[i], _ranges(self.scope, step)[i]
            piece = self._piece(self.gradients[step.name], (low - start, high - start), source)
            self.pieces[step.name, i] = piece
            if self.first_writer(source) == (step.name, i):
                self.gradients[source] = piece

    def first_writer(self, name: str) -> tuple[str, int] | None:
        """Return the (step, input) that contributes first to a gradient in backward order."""
        if name in self.scope.given:
            return None
        running = [(step, i) for step, i in self._readers[name] if step.name in self.scope.wanted]
        last = running[-1][0].name
        return last, min(i for step, i in running if step.name == last)

    def _shares(self, step: Step, i: int) -> bool:
        """Whether the gradient of a concat's input is, or is added from, its piece of the concat's gradient."""
        name = step.inputs[i]
        if name not in self.scope.wanted or step.inputs.count(name) > 1:
            return False
        if self.first_writer(name) != (step.name, i):
            return True
        maker = self._makers.get(name)
        return maker is not None and self._takes_strides(maker, name)

    def _narrow(self, name: str, step: Step | None, shared: list[int]) -> None:
        """Restrict a concat's gradient to the columns that somebody wants, where they are next to each other."""
        if step is None or not shared or name in self.scope.given:
            return
        if len(shared) < sum(source in self.scope.wanted for source in step.inputs):
            return  # some input needs a copy, which the kernel makes from the full width
        ranges = [_ranges(self.scope, step)[i] for i in shared]
        low, high = ranges[0][0], ranges[-1][1]
        gapless = sum(b - a for a, b in ranges) == high - low
        if gapless and all(reader.kernel.partial and i == 0 for reader, i in self._readers[name]):
            self.columns[name] = slice(low, high)

    def second(self, step: str, i: int, name: str) -> Array:
        """Room for a gradient that will be added to another consumer's."""
        if (step, i) in self.pieces:
            return self.pieces[step, i]
        if (step, i) not in self._spare:
            self._spare[step, i] = self.empty(self.gradients[name].shape, self.dtype)
        return self._spare[step, i]

    def rows_gradient(self, name: str, shape: tuple[int, int], given: Array | None = None) -> Array:
        """Zeroed ``[unique, width]``: the given array, or one that grows with the largest batch seen."""
        if given is not None:
            given.fill(0)
            return given
        base = self._row_gradients.get(name)
        if base is None or base.shape[0] < shape[0]:
            base = self._row_gradients[name] = self.xp.empty((shape[0] + shape[0] // 4, shape[1]), self.dtype)
        view = base[: shape[0]]
        view.fill(0)
        return view


def _joins_columns(scope: Scope, step: Step) -> bool:
    """Whether a step is a concat whose inputs lie side by side in each sample."""
    if step.kind != "concat":
        return False
    return step.attrs["axis"] is None or len(scope.type(step.name).shape) == 1


def _ranges(scope: Scope, step: Step) -> list[tuple[int, int]]:
    """Columns of each input of such a concat."""
    ranges, at = [], 0
    for name in step.inputs:
        width = math.prod(scope.type(name).shape)
        ranges.append((at, at + width))
        at += width
    return ranges
