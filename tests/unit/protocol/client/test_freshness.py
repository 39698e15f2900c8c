"""How new rows are: counts of batches over several Splits."""

import pytest

from heterps.protocol.client.freshness import Freshness
from heterps.protocol.words.modes import Cached


def test_hosts_have_what_was_settled_and_a_batch_may_lack_as_many_as_it_is_allowed() -> None:
    fresh = Freshness(staleness=3, unit=2)
    fresh.enter()
    for n in range(4):
        fresh.begin(n)
    assert fresh.contained == 0
    assert fresh.needed(3) == 0
    fresh.settled(0)
    assert fresh.contained == 2
    fresh.begin(4)
    assert fresh.needed(4) == 1
    fresh.settled(2)
    fresh.settled(4)
    assert fresh.contained == 5


def test_counts_go_on_from_split_to_split_wherever_they_begin() -> None:
    fresh = Freshness(staleness=1, unit=1)
    for first in (0, 6):
        fresh.enter()
        for n in (first, first + 1):
            fresh.begin(n)
            fresh.settled(n)
    assert fresh.contained == fresh.count(7) + 1 == 4
    assert fresh.needed(7) == 2


@pytest.mark.parametrize("staleness", range(9))
def test_a_batch_can_always_have_rows_that_are_new_enough(staleness: int) -> None:
    """Whatever is under way when a batch may begin, what hosts then have is enough for it."""
    mode = Cached(staleness)
    fresh = Freshness(staleness, mode.unit)
    fresh.enter()
    for n in range(30):
        unit = n - n % mode.unit
        fresh.settled(unit - mode.in_flight * mode.unit)
        fresh.begin(n)
        assert fresh.contained >= fresh.needed(n)
    assert mode.in_flight * mode.unit <= max(1, staleness + 1)
