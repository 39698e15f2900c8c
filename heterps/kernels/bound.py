"""Buffers of a program, and its calls bound to the first n rows of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heterps.device.arrays import Array, Namespace
from heterps.graph.types import Form
from heterps.kernels.kernel import Call
from heterps.kernels.random import mix, op_salt
from heterps.kernels.rows import Lists, Rows
from heterps.kernels.steps import Scope, Step

__all__ = ["Bound", "Buffers"]

Action = tuple[Callable[[Any], None], Any]


class Buffers:
    """Memory for a whole batch: results, gradients, and room for second gradients on their way to being added."""

    def __init__(self, scope: Scope, batch_size: int, dtype: np.dtype[Any], xp: Namespace, *, loops: bool) -> None:
        self.scope, self.batch_size, self.dtype, self.xp, self.loops = scope, batch_size, dtype, xp, loops
        self.values = {step.name: self._make(step.name) for step in scope.steps}
        self.gradients: dict[str, Array] = {}
        for name in scope.wanted:
            if scope.type(name).form is Form.DENSE:
                self.gradients[name] = self._make(name)
        self.scratch: dict[str, dict[str, Array]] = {step.name: {} for step in scope.steps}
        self.spare: dict[tuple[str, int], Array] = {}
        self.row_gradients: dict[str, Array] = {}

    def _make(self, name: str) -> Array | None:
        type_ = self.scope.type(name)
        if type_.form is Form.SCALAR:
            return self.xp.zeros((), self.dtype)
        if type_.form is Form.DENSE:
            return self.xp.empty((self.batch_size, *type_.shape), self.dtype)
        return None  # ragged: made by the kernel, since only the batch knows the size

    def second(self, step: str, i: int, name: str) -> Array:
        """Room for a gradient that will be added to another consumer's."""
        return self.spare.setdefault((step, i), self._make(name))

    def rows_gradient(self, name: str, shape: tuple[int, int]) -> Array:
        """Zeroed ``[unique, width]``; grows with the largest batch seen."""
        base = self.row_gradients.get(name)
        if base is None or base.shape[0] < shape[0]:
            base = self.row_gradients[name] = self.xp.empty((shape[0] + shape[0] // 4, shape[1]), self.dtype)
        view = base[: shape[0]]
        view[...] = 0
        return view


def _add(pair: tuple[Array, Array]) -> None:
    target, more = pair
    target += more


class Bound:
    """The calls of a program for batches of exactly n rows."""

    def __init__(self, buffers: Buffers, n: int) -> None:
        self.n, self._buffers, self._scope = n, buffers, buffers.scope
        self.calls: dict[str, Call] = {step.name: self._call(step) for step in self._scope.steps}
        self._steps = [(step, self.calls[step.name]) for step in self._scope.steps]
        self._random = [(op_salt(step.name), call) for step, call in self._steps if step.kernel.random]
        self._train = True
        self._feed_sites = {name: self._sites(name) for name in self._scope.feeds}
        self._param_calls = [(step.param_op, call) for step, call in self._steps if step.param_op]
        self._params: Any = None
        self._dparams: Any = None
        self._backward = self._plan_backward()

    def _view(self, base: Array | None) -> Array | None:
        return base if base is None or base.ndim == 0 else base[: self.n]

    def _call(self, step: Step) -> Call:
        b = self._buffers
        call = Call(step.attrs, b.xp, self.n, loops=b.loops, bases=b.scratch[step.name])
        call.y = self._view(b.values[step.name])
        call.xs = [self._view(b.values.get(name)) for name in step.inputs]
        call.dxs = [None] * len(step.inputs)
        call.dy = self._view(b.gradients.get(step.name))
        return call

    def _sites(self, name: str) -> list[tuple[list[Any], int]]:
        return [(self.calls[step.name].xs, i) for step, i in self._scope.consumers(name)]

    def _plan_backward(self) -> list[Action]:
        """Steps backwards; the first gradient of a tensor is written in place, later ones beside it and added."""
        actions: list[Action] = []
        written = set(self._scope.given)
        for step, call in reversed(self._steps):
            if step.name not in self._scope.wanted:
                continue
            adds: list[Action] = []
            for i, name in enumerate(step.inputs):
                gradient = self._view(self._buffers.gradients.get(name))
                if gradient is None:
                    continue
                if name in written:
                    call.dxs[i] = self._view(self._buffers.second(step.name, i, name))
                    adds.append((_add, (gradient, call.dxs[i])))
                else:
                    call.dxs[i] = gradient
                    written.add(name)
            actions += [(step.kernel.backward, call), *adds]
        return actions

    def set_feeds(self, feeds: Mapping[str, Any]) -> list[str]:
        """Put the batch's values where steps read them; return the names that are missing."""
        self._feeds = feeds
        missing = []
        for name, sites in self._feed_sites.items():
            value = feeds.get(name)
            if value is None:
                missing.append(name)
            for xs, i in sites:
                xs[i] = value
        return missing

    def set_mode(self, seed: int, *, train: bool) -> None:
        """Tell the calls whether this batch is trained on, and give those that draw numbers their seed."""
        if train is not self._train:
            for call in self.calls.values():
                call.train = train
            self._train = train
        for salt, call in self._random:
            call.seed = mix(seed ^ salt)

    def set_params(self, views: Mapping[str, Mapping[str, Array]]) -> None:
        """Point the calls to these parameters."""
        if views is not self._params:
            for op, call in self._param_calls:
                call.params = views[op]
            self._params = views

    def set_dparams(self, views: Mapping[str, Mapping[str, Array]]) -> None:
        """Point the calls to where dense gradients go; parameters off the loss's path get zero."""
        if views is not self._dparams:
            for op, call in self._param_calls:
                call.dparams = views[op]
            self._dparams = views
        for step, call in self._steps:
            if step.param_op and step.name not in self._scope.wanted:
                for gradient in call.dparams.values():
                    gradient[...] = 0

    def forward(self, *, predict: bool) -> None:
        """Run every step; with ``predict`` the loss only turns its input into a prediction."""
        loss = self._scope.graph.loss
        for step, call in self._steps:
            if predict and step.name == loss:
                assert step.kernel.predict is not None
                step.kernel.predict(call)
                continue
            assert step.kernel.forward is not None
            step.kernel.forward(call)
            if isinstance(call.y, Lists):
                self._publish(step, call)

    def _publish(self, step: Step, call: Call) -> None:
        """Hand a ragged result on: only now its size is known."""
        wanted = step.name in self._scope.wanted
        consumers = self._scope.consumers(step.name)
        if wanted:
            gradient = call.scratch("gradient of the result", call.y.values.shape, call.y.values.dtype)
            gradient[...] = 0
            call.dy = Lists(gradient, call.y.offsets)
        for reader, i in consumers:
            other = self.calls[reader.name]
            other.xs[i] = call.y
            if wanted:
                other.dxs[i] = call.dy

    def backward(self, given: Mapping[str, Array]) -> None:
        """Run backward; ``given`` are the gradients that come from outside."""
        for name, gradient in given.items():
            target = self.calls[name].dy
            (target.values if isinstance(target, Lists) else target)[...] = gradient
        self._row_gradients = {
            name: self._buffers.rows_gradient(name, value.values.shape)
            for name, value in self._feeds.items()
            if isinstance(value, Rows) and name in self._scope.wanted
        }
        for name, rows in self._row_gradients.items():
            for step, i in self._scope.consumers(name):
                self.calls[step.name].dxs[i] = rows
        for run, call in self._backward:
            run(call)

    def results(self) -> dict[str, Array]:
        """Outputs by name."""
        return {name: self.calls[name].y for name in self._scope.outputs}

    def input_gradients(self) -> dict[str, Array]:
        """Gradients of fed tensors."""
        dense = {
            name: self._view(self._buffers.gradients[name])
            for name in self._scope.feeds
            if name in self._buffers.gradients
        }
        return dense | self._row_gradients

    def loss(self) -> Array:
        """The loss as a 0-d array."""
        return self.calls[self._scope.graph.loss].y

    def prediction(self) -> Array:
        """The prediction the loss op made."""
        loss = self._scope.graph.loss
        step = next(step for step in self._scope.steps if step.name == loss)
        assert step.kernel.prediction is not None
        return step.kernel.prediction(self.calls[loss])
