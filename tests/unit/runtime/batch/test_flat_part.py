import numpy as np
import pytest

from heterps.runtime.batch.flat_part import FlatPart


@pytest.mark.parametrize(
    ("spans", "numbers", "view"),
    [
        ([], [], True),
        ([slice(2, 4), slice(4, 7)], [2, 3, 4, 5, 6], True),
        ([slice(0, 2), slice(2, 2), slice(5, 6)], [0, 1, 5], False),
    ],
    ids=["none", "touching", "apart"],
)
def test_pieces_are_taken_and_put_back(spans, numbers, view):
    part, flat = FlatPart(spans), np.arange(8, dtype=np.float32)
    assert part.is_view is view
    assert part.size == len(numbers)
    assert part.take(flat).tolist() == numbers
    room = part.room(flat)
    room[...] = -1
    part.put(flat, room)
    assert [i for i in range(8) if flat[i] == -1] == numbers
