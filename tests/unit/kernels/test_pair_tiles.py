"""Dot products of pairs in tiles: right to rounding, the same bits in any batch, nothing beside them written."""

from __future__ import annotations

import numpy as np
import pytest

from heterps.kernels.kernel import Call
from heterps.kernels.ops.pair_tiles import fits_tiles, tiled_pairs
from heterps.kernels.ops.tiles import FUSES


def pairs(z: np.ndarray, gap: int) -> np.ndarray:
    """What is written beside a gap that other columns have."""
    n, fields, _ = z.shape
    whole = np.full((n, gap + fields * (fields - 1) // 2), 7, np.float32)
    call = Call({}, np, n, loops=True)
    call.y = whole[:, gap:]
    tiled_pairs(call, z)
    assert (whole[:, :gap] == 7).all()
    return whole[:, gap:]


@pytest.mark.parametrize("dim", [16, 32])
@pytest.mark.parametrize("fields", [*range(16, 36), 48, 49])
def test_dot_products_are_right_and_alike_in_any_batch(fields: int, dim: int) -> None:
    z = np.random.default_rng(fields).standard_normal((5, fields, dim), dtype=np.float32)
    i, j = np.tril_indices(fields, -1)
    wide = z.astype(np.float64)
    found, scale = pairs(z, 3), (np.abs(wide[:, i]) * np.abs(wide[:, j])).sum(2)
    assert np.all(np.abs(found - (wide[:, i] * wide[:, j]).sum(2)) <= 1e-5 * scale)
    np.testing.assert_array_equal(pairs(z[2:4], 0), found[2:4])
    assert pairs(z[:0], 3).shape == (0, len(i))


@pytest.mark.parametrize(
    ("fields", "dim", "dtype"), [(15, 16, "float32"), (27, 8, "float32"), (27, 48, "float32"), (27, 16, "float64")]
)
def test_other_vectors_are_not_for_tiles(fields: int, dim: int, dtype: str) -> None:
    call = Call({}, np, 2, loops=True)
    assert not fits_tiles(call, np.ones((2, fields, dim), dtype))
    assert fits_tiles(call, np.ones((2, 27, 16), np.float32)) is FUSES
