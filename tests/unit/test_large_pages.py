"""Memory in large pages: as large as asked for, apart from each other, and given back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings, strategies as st

from heterps.large_pages import large_block

SIZES = st.integers(0, 3_000_000)


@settings(deadline=None, max_examples=25)
@given(st.lists(SIZES, min_size=1, max_size=5))
def test_blocks_are_as_large_as_asked_for_and_apart(sizes: list[int]) -> None:
    blocks = [large_block(size) for size in sizes]
    for number, block in enumerate(blocks):
        block[:] = number
    for number, (block, size) in enumerate(zip(blocks, sizes, strict=True)):
        assert block.shape == (size,)
        assert np.all(block == number)
        assert size < 1 << 19 or block.ctypes.data % (1 << 21) == 0


def test_a_block_is_given_back_when_its_last_array_goes() -> None:
    def mapped() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0])

    views = [large_block(8 << 20)[100:200] for _ in range(10)]
    held = mapped()
    views.clear()
    assert mapped() <= held - (80 << 20) // 4096
