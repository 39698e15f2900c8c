"""Memory for the arrays of one message after another."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from heterps.runtime.batch.message_memory import AnswerRoom, MessageMemory


class Halves(MessageMemory):
    parts = 2


def start(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@given(st.lists(st.lists(st.integers(0, 300), max_size=4), max_size=8), st.sampled_from([MessageMemory, Halves]))
def test_arrays_of_a_message_and_of_those_that_are_still_read_do_not_overlap(
    messages: list[list[int]], kind: type[MessageMemory]
) -> None:
    memory, read = kind(), []
    for number, sizes in enumerate(messages):
        room = AnswerRoom(memory)
        arrays = [room.take(n) for n in sizes]
        for k, array in enumerate(arrays):
            array[:] = 10 * number + k
        read = [*read, [array.copy() for array in arrays], arrays][-2 * kind.parts :]
        for wanted, found in zip(read[::2], read[1::2], strict=True):
            assert all(np.array_equal(*pair) for pair in zip(wanted, found, strict=True))
        room.close()
        memory.end()


def test_the_next_message_lies_where_the_last_one_did() -> None:
    memory, places = MessageMemory(), []
    for _ in range(4):
        room = AnswerRoom(memory)
        places.append([start(room.take(1000, 17)), start(room.take(5000))])
        room.close()
        memory.end()
    assert places[1] == places[2] == places[3]  # the first found no memory yet
    assert all(place % 4 == 0 for place in places[3])


def test_a_room_that_is_closed_gives_other_memory() -> None:
    memory = MessageMemory()
    memory.enlarge(1 << 20)
    room = AnswerRoom(memory)
    room.close()
    assert not np.shares_memory(room.take(10), memory._memory)


def test_who_still_writes_keeps_the_memory() -> None:
    memory = MessageMemory()
    memory.enlarge(1 << 20)
    room = AnswerRoom(memory)
    late = room.take(10)
    room.close(late=True)
    memory.end()
    again = AnswerRoom(memory).take(10)
    again[:] = 1
    late[:] = 2
    assert np.array_equal(again, np.ones(10))


def test_nobody_writes_where_nothing_was_taken() -> None:
    memory = MessageMemory()
    memory.enlarge(1 << 20)
    room, before = AnswerRoom(memory), memory._memory
    room.close(late=True)
    assert memory._memory is before


def test_without_an_arena_arrays_are_made_anew() -> None:
    room = AnswerRoom()
    assert not np.shares_memory(room.take(3), room.take(3))
    assert room.take(2, 3).shape == (2, 3)
