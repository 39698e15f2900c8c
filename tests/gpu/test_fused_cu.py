"""``fused.cu`` inside ops and models: kernels take it where the device runs it, with the numbers of the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.device import CudaModule, namespace, to_host
from heterps.kernels import Program
from heterps.kernels.ops.fused_cuda import _rows_contiguous
from heterps.testing.op_contract import cotangent_of as cotangent
from heterps.testing.zoo_cases import CASES
from tests.gpu.host import ORDERS, Orders, host_kernels, needs_gpp
from tests.unit.kernels.program.test_program import batch, model, params

pytestmark = needs_gpp
xp = namespace("fake")


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Iterator[Orders]:
    with host_kernels(seed=2) as orders:
        yield orders


@pytest.mark.parametrize("name", ["dense", "cross", "logloss", "dropout", "dot_interaction"])
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_ops_give_the_numbers_of_the_cpu(name: str, data: st.DataObject) -> None:
    case = data.draw(CASES[name])
    before, dy = ORDERS.launches, cotangent(case)
    expected, got = (case.run(cotangent=dy, dtype="float32", xp=lib) for lib in (np, xp))
    wanted = {"dense": "bias" in case.params, "dropout": case.train and case.attrs.get("rate", 0) > 0}
    assert (ORDERS.launches > before) or not wanted.get(name, True) or not got.y.size
    np.testing.assert_allclose(got.y, expected.y, rtol=2e-5, atol=2e-5)
    for i in expected.dxs:
        np.testing.assert_allclose(got.dxs[i], expected.dxs[i], rtol=2e-5, atol=2e-5)
    for param in expected.dparams:
        np.testing.assert_allclose(got.dparams[param], expected.dparams[param], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["wide_deep", "dlrm"])
def test_models_launch_them_and_give_the_numbers_of_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = set[str]()
    launch = CudaModule.launch

    def noted(self: CudaModule, kernel: str, count: int, args: tuple) -> None:
        launched.add(kernel)
        launch(self, kernel, count, args)

    monkeypatch.setattr(CudaModule, "launch", noted)
    graph, results = model(name), []
    for library in (np, xp):
        program = Program(graph, batch_size=8, xp=library)
        program.forward(batch(graph, 8), params(program))
        gradients = program.backward()
        results.append([to_host(g) for g in (gradients.dense, *gradients.inputs.values())])
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    assert {"add_bias", "relu_slope", "sum_columns", "logloss", "mean_of_lanes", "logloss_slope"} <= launched
    assert ("dot_pairs" in launched and "dot_pairs_slope" in launched) or name != "dlrm"


def test_what_kernels_can_walk() -> None:
    a = np.zeros((4, 6, 2), np.float32)
    assert _rows_contiguous(a)
    assert _rows_contiguous(a[:, :3])
    assert _rows_contiguous(a[::2])
    assert not _rows_contiguous(a[:, :, :1])
    assert not _rows_contiguous(a[:, ::2])
    assert not _rows_contiguous(a.transpose(1, 0, 2))
    assert not _rows_contiguous(np.broadcast_to(np.float32(1), (3, 2)))
