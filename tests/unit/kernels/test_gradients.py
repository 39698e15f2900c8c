"""Every kind: gradients against central differences, loops against array functions, and the strict device."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.device import namespace
from heterps.graph import Form, kinds
from heterps.kernels import kernel
from tests.unit.kernels.cases import CASES, Case

EXAMPLES = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
KINDS = sorted(CASES)


def test_every_kind_has_a_kernel_and_every_computed_kind_a_case() -> None:
    built_in = {k.name for k in kinds() if k.infer.__module__.startswith("heterps.")}
    computed = {name for name in built_in if kernel(name).forward is not None}
    assert computed == set(CASES)
    assert built_in - computed == {"input", "lookup", "pull"}


def cotangent(case: Case) -> np.ndarray | None:
    if case.result.form is Form.SCALAR:
        return None
    return np.random.default_rng(1).standard_normal(case.run().y.shape)


def objective(case: Case, dy: np.ndarray | None) -> float:
    y = case.run().y
    return float(y if dy is None else np.sum(y * dy))


def central_difference(change, start: np.ndarray, dy: np.ndarray | None, step: float = 1e-5) -> np.ndarray:
    slope = np.empty(start.shape)
    for where in np.ndindex(start.shape):
        ends = []
        for sign in (1, -1):
            moved = start.copy()
            moved[where] += sign * step
            ends.append(objective(change(moved), dy))
        slope[where] = (ends[0] - ends[1]) / (2 * step)
    return slope


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@EXAMPLES
def test_gradient_is_the_central_difference(name: str, data: st.DataObject) -> None:
    case = data.draw(CASES[name])
    dy = cotangent(case)
    result = case.run(cotangent=dy)
    for i, gradient in result.dxs.items():
        expected = central_difference(lambda v, i=i: case.with_x(i, v), case.x(i), dy)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)
    for param, gradient in result.dparams.items():
        expected = central_difference(lambda v, p=param: case.with_param(p, v), case.params[param], dy)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@EXAMPLES
def test_loops_equal_array_functions(name: str, dtype: str, data: st.DataObject) -> None:
    case = data.draw(CASES[name])
    dy = cotangent(case)
    loops = case.run(cotangent=dy, dtype=dtype)
    arrays = case.run(cotangent=dy, dtype=dtype, loops=False)
    assert_same(loops, arrays, {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-12})


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@EXAMPLES
def test_array_functions_run_on_a_strict_device_without_touching_the_host(name: str, data: st.DataObject) -> None:
    case = data.draw(CASES[name])
    dy = cotangent(case)
    on_device = case.run(cotangent=dy, xp=namespace("fake"))
    assert_same(on_device, case.run(cotangent=dy, loops=False), {"rtol": 1e-12, "atol": 1e-12})


def assert_same(a, b, tolerance) -> None:
    np.testing.assert_allclose(a.y, b.y, **tolerance)
    for i in a.dxs:
        np.testing.assert_allclose(a.dxs[i], b.dxs[i], **tolerance)
    for name in a.dparams:
        np.testing.assert_allclose(a.dparams[name], b.dparams[name], **tolerance)
    if a.prediction is not None:
        np.testing.assert_allclose(a.prediction, b.prediction, **tolerance)
