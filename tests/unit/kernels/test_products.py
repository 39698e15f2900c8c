"""Products of layers in tiles: right to rounding, the same bits wherever a sample stands and whoever computes it,
nothing beside them written.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from threadpoolctl import threadpool_limits

from heterps.kernels.ops import products
from heterps.kernels.ops.pointwise import bias_relu, flat_rows
from heterps.kernels.ops.products import LEAST, input_gradient, product, weight_gradient
from heterps.kernels.ops.tiles import WIDE

LOOPS = SimpleNamespace(loops=True, xp=np, scratch=lambda name, shape, dtype: np.full(shape, np.nan, dtype))
WIDTHS = (16, 32, 48, 64, *((80, 112, 208) if WIDE else ()))


def apart(rng: np.random.Generator, n: int, width: int, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """A matrix whose rows lie apart, and the whole that it is a piece of."""
    whole = rng.standard_normal((n, width + gap), dtype=np.float32)
    return whole[:, gap:], whole


@given(
    n=st.integers(0, 40),
    inputs=st.integers(LEAST, LEAST + 70),
    columns=st.sampled_from(WIDTHS),
    gaps=st.tuples(*[st.integers(0, 3)] * 2),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=60, deadline=None)
def test_products_are_right_wherever_rows_lie(
    n: int, inputs: int, columns: int, gaps: tuple[int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, xs = apart(rng, n, inputs, gaps[0])
    dy, ys = apart(rng, n, columns, gaps[1])
    w = rng.standard_normal((inputs, columns), dtype=np.float32)
    y, dx = ys.copy()[:, gaps[1] :], xs.copy()[:, gaps[0] :]
    dw = np.full_like(w, np.nan)
    product(LOOPS, x, w, y)
    weight_gradient(LOOPS, x, dy, dw)
    input_gradient(LOOPS, dy, w, dx)
    wide = [a.astype(np.float64) for a in (x, w, dy)]
    for found, a, b in ((y, wide[0], wide[1]), (dw, wide[0].T, wide[2]), (dx, wide[2], wide[1].T)):
        scale = np.abs(a) @ np.abs(b)
        assert np.all(np.abs(found - a @ b) <= 4e-5 * scale + 1e-30)
    for piece, before, gap in ((y, ys, gaps[1]), (dx, xs, gaps[0])):
        whole = piece.base if piece.base is not None else piece
        np.testing.assert_array_equal(whole[:, :gap], before[:, :gap])


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_sample_has_the_same_bits_in_any_batch(columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, w = rng.standard_normal((20, 301), dtype=np.float32), rng.standard_normal((301, columns), dtype=np.float32)
    dy = rng.standard_normal((20, columns), dtype=np.float32)
    y, dx = np.empty((20, columns), np.float32), np.empty((20, 301), np.float32)
    product(LOOPS, x, w, y)
    input_gradient(LOOPS, dy, w, dx)
    for first, last in ((0, 1), (3, 10), (5, 20)):
        part, dpart = np.empty_like(y[first:last]), np.empty_like(dx[first:last])
        product(LOOPS, x[first:last], w, part)
        input_gradient(LOOPS, dy[first:last], w, dpart)
        np.testing.assert_array_equal(part, y[first:last])
        np.testing.assert_array_equal(dpart, dx[first:last])


def test_what_is_no_number_is_not_hidden() -> None:
    x, w = np.ones((7, 300), np.float32), np.ones((300, 64), np.float32)
    x[6, 299], w[3, 5] = np.nan, np.inf
    y, dw, dx = np.empty((7, 64), np.float32), np.empty_like(w), np.empty_like(x)
    product(LOOPS, x, w, y)
    weight_gradient(LOOPS, x, y, dw)
    input_gradient(LOOPS, y, w, dx)
    assert np.isnan(y[6]).all()
    assert np.isinf(y[:6, 5]).all()
    assert np.isfinite(y[:6, :5]).all()
    assert np.isnan(dw).all()
    assert np.isnan(dx[6]).all()


def test_a_wide_tile_gives_the_bits_of_narrow_ones() -> None:
    """With registers for it 64 columns are one tile, else four, as 16 are one anywhere."""
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((8, 333), dtype=np.float32), rng.standard_normal((333, 64), dtype=np.float32)
    whole, parts = np.empty((8, 64), np.float32), []
    product(LOOPS, x, w, whole)
    for c in range(0, 64, 16):
        parts.append(np.empty((8, 16), np.float32))
        product(LOOPS, x, np.ascontiguousarray(w[:, c : c + 16]), parts[-1])
    np.testing.assert_array_equal(whole, np.concatenate(parts, 1))


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("n", [0, 1, 7, 40])
def test_threads_change_no_bit(columns: int, n: int) -> None:
    """Who computes one batch at a time gives its cores to the products."""
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((n, 301), dtype=np.float32), rng.standard_normal((301, columns), dtype=np.float32)
    dy, found = rng.standard_normal((n, columns), dtype=np.float32), []
    for threads in (1, 2, 3):
        y, dw, dx = np.full_like(dy, np.nan), np.full_like(w, np.nan), np.full_like(x, np.nan)
        with threadpool_limits(threads, user_api="blas"):
            product(LOOPS, x, w, y, w[0])
            weight_gradient(LOOPS, x, dy, dw)
            input_gradient(LOOPS, dy, w, dx)
        found.append((y, dw, dx))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("columns", WIDTHS)
def test_bias_and_activation_on_the_way_give_the_bits_of_a_pass(columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, w = rng.standard_normal((21, 301), dtype=np.float32), rng.standard_normal((301, columns), dtype=np.float32)
    bias, whole = rng.standard_normal(columns, dtype=np.float32), np.full((21, columns + 3), 7, np.float32)
    x[3, 5] = np.nan
    y, apart = whole[:, 3:], np.empty((21, columns), np.float32)
    assert product(LOOPS, x, w, y, bias)
    assert not product(LOOPS, x, w, apart)
    bias_relu(*flat_rows(apart), 0, 21, bias)
    np.testing.assert_array_equal(y, apart)
    assert np.isnan(y[3]).all()
    assert (whole[:, :3] == 7).all()


@pytest.mark.parametrize(
    ("inputs", "columns", "dtype", "fuses"),
    [
        (300, 8, "float32", True),
        (300, 65, "float32", True),
        (300, 136, "float32", True),
        (4100, 128, "float32", True),
        (255, 64, "float32", True),
        (300, 64, "float64", True),
        (300, 64, "float32", False),
    ],
)
def test_others_are_the_librarys(
    inputs: int, columns: int, dtype: str, fuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: Any) -> None:
        raise AssertionError("a loop was called")

    for loop in ("tiled_product", "tiled_gradient"):
        monkeypatch.setattr(products, loop, refused)
    monkeypatch.setattr(products, "FUSES", fuses)
    x, w, dy = np.ones((3, inputs), dtype), np.ones((inputs, columns), dtype), np.ones((3, columns), dtype)
    y, dw, dx = np.empty_like(dy), np.empty_like(w), np.empty_like(x)
    product(LOOPS, x, w, y)
    weight_gradient(LOOPS, x, dy, dw)
    input_gradient(LOOPS, dy, w, dx)
    assert (y == inputs).all()
    assert (dw == 3).all()
    assert (dx == columns).all()
