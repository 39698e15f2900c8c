"""Arrays of an arena: apart from each other, aligned, and gone when nobody holds them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from heterps.kernels.program.arena import Arena

SHAPES = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 40)), min_size=1, max_size=12)


@given(SHAPES, st.sampled_from(["float32", "float64", "int32"]))
def test_arrays_do_not_overlap(shapes: list[tuple[int, int]], dtype: str) -> None:
    arena = Arena()
    arrays = [arena.empty(shape, dtype) for shape in shapes]
    for number, array in enumerate(arrays):
        array[...] = number
    for number, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert np.all(array == number)


def test_large_arrays_begin_on_cache_lines() -> None:
    arena = Arena()
    arrays = [arena.empty((rows, 17), np.float32) for rows in (1001, 2003, 700_001, 999)]
    assert [array.ctypes.data % 64 for array in arrays] == [0, 0, 0, 0]


def mapped() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_is_given_back_with_the_last_array() -> None:
    shape = (6000, 1000)
    before = mapped()
    arena = Arena()
    arrays = [arena.empty(shape, np.float32) for _ in range(4)]
    for array in arrays:
        array[...] = 1
    pages = 4 * 4 * math.prod(shape) // 4096
    assert mapped() - before > 0.9 * pages
    view = arrays[0][:10]
    del arena, array, arrays
    assert view[0, 0] == 1
    del view
    assert mapped() - before < 0.1 * pages
