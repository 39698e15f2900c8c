"""``rows.cu`` behind its launcher on random gathers, and inside a whole model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.device import namespace, to_host
from heterps.kernels import Program
from heterps.testing.op_cases import CASES, OpCase
from heterps.testing.op_contract import cotangent_of
from tests.gpu.host import ORDERS, Orders, host_kernels, needs_gpp
from tests.unit.kernels.program.test_program import batch, model, params

pytestmark = needs_gpp


@pytest.fixture(scope="module")
def kernels() -> Iterator[Orders]:
    with host_kernels() as orders:
        yield orders


@given(case=CASES["gather_pool"], seed=st.integers(0, 99), workers=st.integers(1, 3))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_gives_the_bits_of_the_cpu_loops(kernels: Orders, case: OpCase, seed: int, workers: int) -> None:
    kernels.seed, kernels.workers = seed, workers
    before, dy = kernels.launches, cotangent_of(case)
    expected = case.run(cotangent=dy, dtype="float32")
    got = case.run(cotangent=dy, dtype="float32", xp=namespace("fake"))
    assert ORDERS.launches > before  # nothing is launched for an empty batch
    np.testing.assert_array_equal(got.y, expected.y)
    np.testing.assert_array_equal(got.dxs[0], expected.dxs[0])


def test_a_model_whose_gathered_rows_lie_apart(kernels: Orders) -> None:
    """They lie in the buffer of a concat here."""
    graph, results = model("wide_deep"), []
    for device in ("cpu", "fake"):
        program = Program(graph, batch_size=8, xp=namespace(device))
        program.forward(batch(graph, 8), params(program))
        gradients = program.backward()
        results.append([to_host(g) for g in (gradients.dense, *gradients.inputs.values())])
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
