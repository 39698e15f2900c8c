"""``rows.cu`` without a GPU: compiled by NVRTC for every architecture, run on the host, and under sanitizers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.device import CUDA_OPTIONS, namespace, set_raw_loader, to_host
from heterps.kernels import Program
from heterps.kernels.ops.rows_cuda import SOURCE
from heterps.testing.op_cases import CASES, OpCase
from heterps.testing.op_contract import cotangent_of
from tests.gpu.fixed import CASES as FIXED
from tests.gpu.host import GPP, HostModule, build_and_run
from tests.unit.kernels.program.test_program import batch, model, params

ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"]
needs_gpp = pytest.mark.skipif(GPP is None, reason="g++ is not installed")


# lane 1: the real compiler


def nvrtc_cubin(source: str, architecture: str) -> bytes:
    pytest.importorskip("cupy")
    from cupy.cuda import nvrtc as cupy_nvrtc

    try:
        cupy_nvrtc.getVersion()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"NVRTC cannot be loaded: {error}")
    program = cupy_nvrtc.createProgram(source, "rows.cu", (), ())
    cupy_nvrtc.compileProgram(program, [f"-arch={architecture}", *CUDA_OPTIONS])
    return bytes(cupy_nvrtc.getCUBIN(program))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvrtc_compiles_it(architecture: str) -> None:
    cubin = nvrtc_cubin(SOURCE.read_text(), architecture)
    for name in (b"gather_rows", b"pool_rows", b"scatter_rows"):
        assert name in cubin


def test_nvrtc_refuses_a_mistake() -> None:
    nvrtc_cubin(SOURCE.read_text(), "sm_80")
    with pytest.raises(Exception, match="NVRTC_ERROR_COMPILATION"):
        nvrtc_cubin(SOURCE.read_text().replace("const int row", "const integer row", 1), "sm_80")


# lane 2: the same text on the host, through the code that launches it on a GPU


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostModule]:
    if GPP is None:
        pytest.skip("g++ is not installed")
    made = HostModule(SOURCE.read_text(), tmp_path_factory.mktemp("rows"))
    set_raw_loader("fake", lambda source: made)
    yield made
    set_raw_loader("fake", None)


@given(case=CASES["gather_pool"], seed=st.integers(0, 99), workers=st.integers(1, 3))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_gives_the_bits_of_the_cpu_loops(module: HostModule, case: OpCase, seed: int, workers: int) -> None:
    module.seed, module.workers = seed, workers
    before, dy = module.launches, cotangent_of(case)
    expected = case.run(cotangent=dy, dtype="float32")
    got = case.run(cotangent=dy, dtype="float32", xp=namespace("fake"))
    assert module.launches == before + 2
    np.testing.assert_array_equal(got.y, expected.y)
    np.testing.assert_array_equal(got.dxs[0], expected.dxs[0])


@needs_gpp
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("row < 0 || row == pad;", "row < 0;"),
        ("rows > 1) total /= (float)rows", "rows > 2) total /= (float)rows"),
        ("v > total", "v >= total"),
        ("kept[s] > 1 ? kept[s] : 1", "kept[s] + 1"),
        ("winner[s * dim + d] == p", "winner[s * dim + d] >= 0"),
        ("(p / slots) * stride + (p % slots) * dim + d] = padding", "p * dim + d] = padding"),
    ],
)
def test_a_planted_mistake_changes_the_result(right: str, wrong: str, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert right in text
    set_raw_loader("fake", lambda source: HostModule(text.replace(right, wrong), tmp_path))
    try:
        with pytest.raises(AssertionError):
            _exercise()
    finally:
        set_raw_loader("fake", None)


def _exercise() -> None:
    """Fixed cases that between them take every branch."""
    for case in FIXED:
        dy = cotangent_of(case)
        expected = case.run(cotangent=dy, dtype="float32")
        got = case.run(cotangent=dy, dtype="float32", xp=namespace("fake"))
        np.testing.assert_array_equal(got.y, expected.y)
        np.testing.assert_array_equal(got.dxs[0], expected.dxs[0])
    _run_a_model()


def _run_a_model() -> None:
    """Gathered rows lie apart here, in the buffer of a concat."""
    graph, results = model("wide_deep"), []
    for device in ("cpu", "fake"):
        program = Program(graph, batch_size=8, xp=namespace(device))
        program.forward(batch(graph, 8), params(program))
        gradients = program.backward()
        results.append([to_host(g) for g in (gradients.dense, *gradients.inputs.values())])
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


@needs_gpp
def test_the_fixed_cases_pass_unchanged(tmp_path: Path) -> None:
    set_raw_loader("fake", lambda source: HostModule(SOURCE.read_text(), tmp_path))
    try:
        _exercise()
    finally:
        set_raw_loader("fake", None)


# lane 3: sanitizers

SANITIZERS = {"memory": ("address", "undefined"), "threads": ("thread",)}


@needs_gpp
@pytest.mark.parametrize("lane", SANITIZERS)
def test_sanitizers_find_nothing(lane: str, tmp_path: Path) -> None:
    run = build_and_run(SOURCE, tmp_path, *SANITIZERS[lane])
    assert run.returncode == 0, run.stderr[:2000]


@needs_gpp
@pytest.mark.parametrize(
    ("lane", "right", "wrong"),
    [
        ("memory", "if (i >= count) return;", ""),
        ("memory", "k < starts[row + 1]", "k <= starts[row + 1]"),
        ("memory", "if (row < 0 || row == pad) continue;", "if (row == pad) continue;"),
        ("threads", "gradient[row * width + low + d] = total;", "gradient[low + d] = total;"),
        ("threads", "if (d == 0) kept[s] = rows;", "kept[s] = rows;"),
    ],
)
def test_sanitizers_find_a_planted_mistake(lane: str, right: str, wrong: str, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert right in text
    planted = tmp_path / "planted.cu"
    planted.write_text(text.replace(right, wrong))
    run = build_and_run(planted, tmp_path, *SANITIZERS[lane])
    assert run.returncode != 0
    assert "Sanitizer" in run.stderr or "runtime error" in run.stderr


# on a GPU


@pytest.mark.gpu
@given(case=CASES["gather_pool"])
@settings(max_examples=60, deadline=None)
def test_a_gpu_gives_the_bits_of_the_cpu_loops(case: OpCase) -> None:
    dy = cotangent_of(case)
    expected = case.run(cotangent=dy, dtype="float32")
    got = case.run(cotangent=dy, dtype="float32", xp=namespace("gpu"))
    np.testing.assert_array_equal(got.y, expected.y)
    np.testing.assert_array_equal(got.dxs[0], expected.dxs[0])
