"""What every op kind must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.device import namespace
from heterps.graph import Form, kind
from heterps.kernels import OpCost, OpWork, kernel
from heterps.testing.op_cases import Floats, OpCase, OpResult

__all__ = ["OpContract", "assert_same_result", "cotangent_of"]

#: Several classes may inherit one test, and the first example compiles.
EXAMPLES = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors]
)


class OpContract:
    """Derive, and give a strategy of cases for each kind.

    Attributes
    ----------
    cases
        By kind: a strategy that draws :class:`OpCase` values, for example with :func:`make_case`.
    superlinear
        Kinds whose work grows faster than the batch (each sample is compared with all others).
    """

    cases: ClassVar[Mapping[str, st.SearchStrategy[OpCase]]]
    superlinear: ClassVar[frozenset[str]] = frozenset()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each kind."""
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", sorted(self.cases))

    @given(data=st.data())
    @EXAMPLES
    def test_gradient_is_the_central_difference(self, name: str, data: st.DataObject) -> None:
        case = data.draw(self.cases[name])
        dy = cotangent_of(case)
        result = case.run(cotangent=dy)
        for i, gradient in result.dxs.items():
            expected = _central_difference(lambda v, i=i: case.with_x(i, v), case.x(i), dy)  # type: ignore[misc]
            np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)
        for param, gradient in result.dparams.items():
            if case.is_statistic(param):
                continue
            expected = _central_difference(
                lambda v, p=param: case.with_param(p, v),  # type: ignore[misc]
                case.params[param],
                dy,
            )
            np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @given(data=st.data())
    @EXAMPLES
    def test_loops_equal_array_functions(self, name: str, dtype: str, data: st.DataObject) -> None:
        case = data.draw(self.cases[name])
        dy = cotangent_of(case)
        loops = case.run(cotangent=dy, dtype=dtype)
        arrays = case.run(cotangent=dy, dtype=dtype, loops=False)
        rtol, atol = (1e-4, 1e-5) if dtype == "float32" else (1e-10, 1e-12)
        assert_same_result(loops, arrays, rtol, atol)

    @given(data=st.data())
    @EXAMPLES
    def test_array_functions_run_on_a_strict_device_without_touching_the_host(
        self, name: str, data: st.DataObject
    ) -> None:
        case = data.draw(self.cases[name])
        dy = cotangent_of(case)
        on_device = case.run(cotangent=dy, xp=namespace("fake"))
        assert_same_result(on_device, case.run(cotangent=dy, loops=False), rtol=1e-12, atol=1e-12)

    @given(data=st.data())
    @settings(EXAMPLES, max_examples=15)
    def test_twice_the_batch_is_twice_the_work_but_not_twice_the_parameters(
        self, name: str, data: st.DataObject
    ) -> None:
        case = data.draw(self.cases[name])
        one, two, none = (_cost(case, batch) for batch in (4, 8, 0))
        assert two.parameter_bytes == one.parameter_bytes
        assert one.read_bytes > 0
        assert one.written_bytes > 0
        if name in self.superlinear:
            assert two.flops > 2 * one.flops
            return
        assert two.flops == pytest.approx(2 * one.flops)
        assert two.read_bytes - none.read_bytes == pytest.approx(2 * (one.read_bytes - none.read_bytes))
        assert two.written_bytes - none.written_bytes == pytest.approx(2 * (one.written_bytes - none.written_bytes))


def cotangent_of(case: OpCase) -> Floats | None:
    """Return a random gradient of the case's result; None for a loss."""
    if case.result.form is Form.SCALAR:
        return None
    return np.random.default_rng(1).standard_normal(case.run().y.shape)


def assert_same_result(a: OpResult, b: OpResult, rtol: float, atol: float) -> None:
    """Compare results, gradients and predictions."""
    pairs = [(a.y, b.y), *((a.dxs[i], b.dxs[i]) for i in a.dxs), *((a.dparams[k], b.dparams[k]) for k in a.dparams)]
    if a.prediction is not None:
        pairs.append((a.prediction, b.prediction))
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def _cost(case: OpCase, batch: int) -> OpCost:
    params = kind(case.kind).params(case.attrs, case.types)
    return kernel(case.kind).cost(OpWork(case.attrs, case.types, case.result, params, batch))


def _objective(case: OpCase, dy: Floats | None) -> float:
    y = case.run().y
    return float(y if dy is None else np.sum(y * dy))


def _central_difference(
    change: Callable[[Any], OpCase], start: Floats, dy: Floats | None, step: float = 1e-5
) -> Floats:
    slope = np.empty(start.shape)
    for where in np.ndindex(start.shape):
        ends = []
        for sign in (1, -1):
            moved = start.copy()
            moved[where] += sign * step
            ends.append(_objective(change(moved), dy))
        slope[where] = (ends[0] - ends[1]) / (2 * step)
    return slope
