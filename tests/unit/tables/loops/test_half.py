from __future__ import annotations

import numpy as np
import pytest

from heterps.tables.loops.half import decode, encode

NONE = np.uint64(0)


def test_every_half_is_read_and_written_back() -> None:
    halves = np.arange(2**16, dtype=np.uint16)
    out = np.empty(2**16, np.float32)
    decode(halves.view(np.uint32), NONE, np.uint64(2**16), out, NONE)
    np.testing.assert_array_equal(out, halves.view(np.float16).astype(np.float32))
    words = np.zeros(2**15, np.uint32)
    encode(out, NONE, np.uint64(2**16), words, NONE)
    finite = np.isfinite(out)
    np.testing.assert_array_equal(words.view(np.uint16)[finite], halves[finite])
    assert np.isnan(words.view(np.float16)[np.isnan(out)]).all()
    infinite = np.isinf(out)
    np.testing.assert_array_equal(words.view(np.uint16)[infinite], halves[infinite])


@pytest.mark.parametrize("n", range(1, 18))
def test_short_runs_and_their_neighbours(n: int) -> None:
    rng = np.random.default_rng(n)
    halves = rng.integers(0, 0x7C00, 24, dtype=np.uint16)
    out, width = np.full(24, -7, np.float32), np.uint64(n)
    decode(halves.view(np.uint32), np.uint64(1), width, out, np.uint64(3))
    expected = np.full(24, -7, np.float32)
    expected[3 : 3 + n] = halves.view(np.float16)[2 : 2 + n]
    np.testing.assert_array_equal(out, expected)
    words = np.full(12, 0xFFFFFFFF, np.uint32)
    encode(out, np.uint64(3), width, words, np.uint64(2))
    kept = np.full(24, 0xFFFF, np.uint16)
    kept[4 : 4 + n] = halves[2 : 2 + n]
    np.testing.assert_array_equal(words.view(np.uint16), kept)


def test_rounding_is_to_nearest_even() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint32)
    edges = np.array([65519.99, 65520, 6e-8, 2.98e-8, 2.99e-8, 6.1e-5, 0.0, -0.0, np.inf, -np.inf], np.float32)
    middles = (np.arange(1, 2**14, dtype=np.uint16).view(np.float16).astype(np.float64) * (1 + 2**-11)).astype(
        np.float32
    )
    values = np.concatenate([bits.view(np.float32), edges, middles])
    values = values[~np.isnan(values)]
    values = values[: len(values) // 2 * 2]
    words = np.zeros(len(values) // 2, np.uint32)
    encode(values, NONE, np.uint64(len(values)), words, NONE)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    np.testing.assert_array_equal(words.view(np.float16), expected)
