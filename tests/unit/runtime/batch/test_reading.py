"""Batches by number, read from there on."""

import numpy as np

from heterps.data import arrays
from heterps.data.core.read_ahead import OneAhead
from heterps.runtime.batch.reading import Reading

DATA = arrays({"y": np.arange(25)})


def read(start: int) -> OneAhead:
    return OneAhead(DATA.read(DATA.splits()[0], batch_size=10, start=start, ring=2))


def test_the_end_is_told_once_and_before_the_last_batch_is_used() -> None:
    told: list[str] = []
    reading = Reading(read, 0, lambda: told.append("end"))
    sizes = []
    for n in range(4):
        batch = reading.batch(n)
        sizes.append(0 if batch is None else batch.size)
        assert told == ["end"] * (n >= 2)
    assert sizes == [10, 10, 5, 0]


def test_reading_begins_anew_where_hosts_say_so() -> None:
    opened: list[int] = []

    def note(start: int) -> OneAhead:
        opened.append(start)
        return read(start)

    reading = Reading(note, 0)
    assert opened == [0], "at once"
    batch = reading.batch(1)
    assert batch is not None
    assert batch.key.n == 1
    assert batch["y"].tolist() == list(range(10, 20))
    assert opened == [0, 1]
    assert reading.batch(2) is not None
    assert opened == [0, 1]


def test_a_lane_that_ends_has_nothing_to_read() -> None:
    reading = Reading(None, 0)
    assert reading.batch(0) is None
    reading.close()
