"""The calls of a program, bound to the first n rows of its buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from time import perf_counter
from typing import Any

import numpy as np

from heterps.device.arrays import Array
from heterps.errors import HeterpsError, OpError
from heterps.graph.types import Form
from heterps.kernels.kernel import Call, kernel
from heterps.kernels.ops.rows import Lists, Rows
from heterps.kernels.program.buffers import Buffers
from heterps.kernels.program.steps import Step
from heterps.kernels.random import op_salt
from heterps.mixing import finalise

__all__ = ["BoundCalls"]

Action = tuple[Callable[[Any], None], Any, str]  # what to run, on what, and for which step


def _add(pair: tuple[Array, Array]) -> None:
    target, more = pair
    target += more


def _any_number() -> np.errstate:
    """Let NumPy say nothing of numbers that are none: BLAS also computes what lies behind the ends of short matrices,
    and a gradient that is none is found where it is applied.
    """
    return np.errstate(invalid="ignore")


def _timed(
    run: Callable[[Any], None], name: str, spent: dict[str, float], clock: Callable[[], float] = perf_counter
) -> Callable[[Any], None]:
    def timed(call: Any) -> None:
        start = clock()
        run(call)
        spent[name] = spent.get(name, 0.0) + clock() - start

    return timed


class BoundCalls:
    """The calls of a program for batches of exactly n rows.

    ``spent`` takes the seconds of steps that read table rows: ``gather`` forward, ``scatter`` backward.
    """

    def __init__(self, buffers: Buffers, n: int, spent: dict[str, float]) -> None:
        self.n, self._buffers, self._scope, self._spent = n, buffers, buffers.scope, spent
        self._readers = {step.name for step in self._scope.steps if self._reads_rows(step)}
        self.calls: dict[str, Call] = {step.name: self._call(step) for step in self._scope.steps}
        self._steps = [(step, self.calls[step.name]) for step in self._scope.steps]
        self._random = [(op_salt(step.name), call) for step, call in self._steps if step.kernel.random]
        self._train = True
        self._feed_sites = {name: self._sites(name) for name in self._scope.feeds}
        self._param_calls = [(step.param_op, call) for step, call in self._steps if step.param_op]
        self._params: Any = None
        self._dparams: Any = None
        self._single = self._plan_forward(), self._plan_backward()
        self._forward = self._with_rows_timed("gather", self._joined(self._single[0], 0))
        self._backward = self._with_rows_timed("scatter", self._joined(self._single[1], 1))

    def _view(self, base: Array | None) -> Array | None:
        return base if base is None or base.ndim == 0 else base[: self.n]

    def _call(self, step: Step) -> Call:
        b = self._buffers
        call = Call(step.attrs, b.xp, self.n, loops=b.loops, bases=b.scratch[step.name], empty=b.empty)
        call.y = self._view(b.values[step.name])
        call.xs = [self._view(b.values.get(name)) for name in step.inputs]
        call.dxs = [None] * len(step.inputs)
        call.dy = self._view(b.gradients.get(step.name))
        call.owns_dy = True  # every gradient buffer has one reader: the step that made the tensor
        call.placed = b.placed.get(step.name, frozenset())
        call.dplaced = frozenset(i for i in range(len(step.inputs)) if (step.name, i) in b.pieces)
        call.dx_columns = b.columns.get(step.inputs[0]) if step.inputs else None
        return call

    def _sites(self, name: str) -> list[tuple[list[Any], int]]:
        return [(self.calls[step.name].xs, i) for step, i in self._scope.consumers(name)]

    def _plan_forward(self) -> list[Action]:
        actions: list[Action] = []
        for step, call in self._steps:
            assert step.kernel.forward is not None
            actions.append((step.kernel.forward, call, step.name))
            if self._scope.type(step.name).form is Form.RAGGED:
                actions.append((partial(self._publish, step), call, step.name))
        return actions

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
                if gradient is None or name not in self._scope.wanted:
                    continue
                if name in written:
                    call.dxs[i] = self._view(self._buffers.second(step.name, i, name))
                    adds.append((_add, (gradient, call.dxs[i]), step.name))
                else:
                    call.dxs[i] = gradient
                    written.add(name)
            if any(dx is not None and i not in call.dplaced for i, dx in enumerate(call.dxs)) or self._computes(step):
                actions.append((step.kernel.backward, call, step.name))
            actions += adds
        return actions

    def _joined(self, actions: list[Action], way: int) -> list[Action]:
        """Let calls that follow each other be one action where their kernel can do several; ``way`` 1 is backward."""
        kernels = {step.name: step.kernel for step, _ in self._steps}

        def together(action: Action) -> Callable[[Any], None] | None:
            made = kernels[action[2]]
            is_own = action[0] is (made.forward, made.backward)[way]
            return made.together[way] if made.together is not None and is_own else None

        joined: list[Action] = []
        for run, some in groupby(actions, key=together):
            several = list(some)
            if run is None or len(several) == 1:
                joined += several
            else:
                joined.append((run, [call for _, call, _ in several], several[-1][2]))
        return joined

    def _reads_rows(self, step: Step) -> bool:
        return any(self._scope.type(name).form is Form.ROWS for name in step.inputs)

    def _with_rows_timed(self, name: str, actions: list[Action]) -> list[Action]:
        return [
            (_timed(run, name, self._spent) if step in self._readers else run, call, step)
            for run, call, step in actions
        ]

    def _computes(self, step: Step) -> bool:
        """Whether backward does more than hand on gradients that lie in place already."""
        reads_rows = any(self._scope.type(name).form in (Form.ROWS, Form.RAGGED) for name in step.inputs)
        return bool(step.param_op) or reads_rows

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
            call.seed = finalise(seed ^ salt)

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
        name = loss = self._scope.graph.loss
        try:
            with _any_number():
                for run, call, name in self._forward:
                    if not predict or name != loss:
                        run(call)
            if predict and loss in self.calls:
                name, predicts = loss, kernel(self._scope.graph[loss].kind).predict
                assert predicts is not None
                predicts(self.calls[loss])
        except Exception as error:
            raise self._named(error, name, "forward") from error

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

    def backward(
        self,
        given: Mapping[str, Array],
        rows_out: Mapping[str, Array],
        done: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Run backward; ``given`` are gradients that come from outside, ``rows_out`` where those of rows go.

        ``done`` is called with the name of each step once its gradients are there.
        """
        for name, gradient in given.items():
            target = self.calls[name].dy
            (target.values if isinstance(target, Lists) else target)[...] = gradient
        start = perf_counter()
        self._row_gradients = {
            name: self._buffers.rows_gradient(name, value.values.shape, rows_out.get(name))
            for name, value in self._feeds.items()
            if isinstance(value, (Rows, Lists)) and name in self._scope.wanted
        }
        self._spent["scatter"] += perf_counter() - start  # they begin as zeros
        for name, rows in self._row_gradients.items():
            fed = self._feeds[name]
            for step, i in self._scope.consumers(name):
                self.calls[step.name].dxs[i] = Lists(rows, fed.offsets) if isinstance(fed, Lists) else rows
        try:
            with _any_number():
                for action in self._backward:
                    action[0](action[1])
                    done(action[2])
        except Exception as error:
            raise self._named(error, action[2], "backward") from error

    def _named(self, error: Exception, name: str, way: str) -> HeterpsError:
        """Return the error that says which op failed; one of ours keeps its kind."""
        graph, step = self._scope.graph, next(step for step in self._scope.steps if step.name == name)
        ops = " and ".join(f"{op!r} of kind {graph[op].kind!r}" for op in step.ops if op in graph)
        if isinstance(error, HeterpsError):
            error.add_note(f"In op {ops}, {way}.")
            return error
        return OpError(f"op {ops} failed in {way}: {type(error).__name__}: {error}")

    @contextmanager
    def timed(self, spent: dict[str, float], clock: Callable[[], float]) -> Iterator[None]:
        """Measure every action; adds seconds by step name to ``spent``."""
        plain = self._forward, self._backward
        self._forward, self._backward = (
            [(_timed(run, f"{name} {way}", spent, clock), call, name) for run, call, name in actions]
            for way, actions in zip(("forward", "backward"), self._single, strict=True)
        )
        try:
            yield
        finally:
            self._forward, self._backward = plain

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
        found = kernel(self._scope.graph[loss].kind).prediction
        assert found is not None
        return found(self.calls[loss])
