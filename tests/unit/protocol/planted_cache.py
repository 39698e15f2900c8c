"""Bugs to plant in what keeps rows on workers and gathers gradients: the simulator must find every one."""

from collections.abc import Iterable
from typing import Any

import pytest

from heterps.protocol.client.freshness import Freshness
from heterps.simulator.cached_rows import CacheRows
from tests.unit.protocol.planting import Planted

planted = PLANTED = Planted()


@planted
def rows_never_grow_old(patch: pytest.MonkeyPatch) -> None:
    """What a worker has once read is new enough for ever."""
    patch.setattr(Freshness, "needed", lambda self, n: -(1 << 61))


@planted
def rows_are_as_new_as_the_answer(patch: pytest.MonkeyPatch) -> None:
    """What is read is taken to have all batches before the one that asks, settled or not."""
    patch.setattr(Freshness, "contained", property(lambda self: self._next))


@planted
def counts_begin_anew_with_each_split(patch: pytest.MonkeyPatch) -> None:
    """Rows of the Split before are taken for newer than they are."""

    def enter(self: Freshness) -> None:
        self._first, self._next = 0, 0
        self._open.clear()

    patch.setattr(Freshness, "enter", enter)


@planted
def an_unfinished_unit_stays_in_the_cache(patch: pytest.MonkeyPatch) -> None:
    """An attempt that is cancelled leaves what it has gathered to the next one, beside the batches' second run."""
    good = CacheRows.leave
    patch.setattr(CacheRows, "leave", lambda self, terms, whole: good(self, terms, whole=True))


@planted
def rows_of_a_state_that_was_left_stay(patch: pytest.MonkeyPatch) -> None:
    """Whoever takes over a cache does not look whether hosts have returned to a cut since."""

    def enter(self: CacheRows, attempt: int, terms: Any) -> None:
        self.user = attempt
        self.fresh.enter()

    patch.setattr(CacheRows, "enter", enter)


@planted
def shards_that_go_take_their_gradients_along(patch: pytest.MonkeyPatch) -> None:
    """What was gathered for rows that are kept no more is dropped with them."""
    good = CacheRows.let_go

    def let_go(self: CacheRows, shards: Iterable[int]) -> None:
        shards = list(shards)
        for gathered in self.gathered.values():
            for shard in shards:
                gathered.pop(shard, None)
        good(self, shards)

    patch.setattr(CacheRows, "let_go", let_go)


@planted
def asked_for_anew_when_it_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    """A request that is sent again asks for what is lacking then; the answer to the first one counts for it."""
    good = CacheRows.asks

    def asks(self: CacheRows, key: Any, host: int, shards: Any) -> bool:
        self.asked.get(key.n, {}).pop(host, None)
        return good(self, key, host, shards)

    patch.setattr(CacheRows, "asks", asks)


@planted
def steps_stay_on_top_of_what_a_host_has_taken(patch: pytest.MonkeyPatch) -> None:
    """What comes is taken for as old as the moment at which it was asked for: a unit that arrived meanwhile is there
    twice.
    """
    good = CacheRows.receive
    patch.setattr(CacheRows, "receive", lambda self, key, host, rows, low: good(self, key, host, rows, -(1 << 60)))
