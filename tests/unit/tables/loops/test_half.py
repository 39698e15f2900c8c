from __future__ import annotations

import numpy as np

from heterps.tables.loops.half import decode, encode


def test_every_half_is_read_and_written_back() -> None:
    halves = np.arange(2**16, dtype=np.uint16)
    out = np.empty(2**16, np.float32)
    decode(halves.view(np.uint32), 0, 2**16, out, 0)
    np.testing.assert_array_equal(out, halves.view(np.float16).astype(np.float32))
    words = np.zeros(2**15, np.uint32)
    encode(out, 0, 2**16, words, 0)
    finite = np.isfinite(out)
    np.testing.assert_array_equal(words.view(np.uint16)[finite], halves[finite])
    assert np.isnan(words.view(np.float16)[np.isnan(out)]).all()


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
    encode(values, 0, len(values), words, 0)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    np.testing.assert_array_equal(words.view(np.float16), expected)
