"""Bugs to plant where some rows are settled by ranges and others batch by batch: the simulator must find every one."""

from typing import Any

import pytest

from heterps.protocol import ClientState, RunState
from heterps.simulator.mixed_rows import MixedRows
from tests.unit.protocol.planting import Planted

planted = PLANTED = Planted()
in_steps = IN_STEPS = Planted()  # that only lanes in step can show


@planted
def an_attempt_begins_in_the_middle_of_a_range(patch: pytest.MonkeyPatch) -> None:
    """It goes on where hosts stand: what the lost attempt had learned of the range is nowhere."""
    good = ClientState._place

    def place(self: ClientState) -> None:
        good(self)
        low = min(seen.low for seen in self._seen.values()) - self._base
        self.next = self._low = self._turn = max(self.run.start, low)

    patch.setattr(ClientState, "_place", place)


@planted
def a_batch_is_pushed_before_its_range_may_have_ended(patch: pytest.MonkeyPatch) -> None:
    """The last batch of a Split goes without what its range has come to."""
    patch.setattr(ClientState, "_knows_end", lambda self, last: True)


@planted
def a_short_range_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Only whole ranges are settled."""

    def settles(self: ClientState, unit: int) -> int:
        span = self.mode.span
        return span if self.mode.adds and self._unit_end(unit) % span == 0 else 0

    patch.setattr(ClientState, "_settles", settles)


@planted
def a_run_rests_in_the_middle_of_a_range(patch: pytest.MonkeyPatch) -> None:
    """An attempt that is told to stop does so between two batches, and a cut has half of a range."""
    good = ClientState._may_begin

    def may_begin(self: ClientState) -> bool:
        until = self.until
        return good(self) and not (until is not None and self.next >= until and self.next not in self._units)

    patch.setattr(ClientState, "_may_begin", may_begin)


@planted
def an_unfinished_range_stays_with_the_worker(patch: pytest.MonkeyPatch) -> None:
    """An attempt that is cancelled leaves what it has learned to the next one, beside the range's second run."""
    good = MixedRows.leave
    patch.setattr(MixedRows, "leave", lambda self, terms, whole: good(self, terms, whole=True))


@in_steps
def a_lane_in_a_range_waits_in_silence(patch: pytest.MonkeyPatch) -> None:
    """It cannot stop, the others have: both wait."""
    patch.setattr(ClientState, "_will_stand", lambda self: None)


@in_steps
def a_lane_says_nothing_of_its_last_batch(patch: pytest.MonkeyPatch) -> None:
    """That one waits for the other lanes as those before it in the range."""
    good = ClientState._will_stand

    def will_stand(self: ClientState) -> Any:
        return good(self) if self._is_inside(self.next) or self._group is not None else None

    patch.setattr(ClientState, "_will_stand", will_stand)


@in_steps
def lanes_that_end_their_split_wait_for_the_others(patch: pytest.MonkeyPatch) -> None:
    """The next one is handed out when all stand: those that go on to where the foremost will be never do."""
    good = RunState._settle_draining

    def settle(self: RunState) -> None:
        self._target = 0
        good(self)

    patch.setattr(RunState, "_settle_draining", settle)


@in_steps
def nobody_looks_whether_the_range_goes_on(patch: pytest.MonkeyPatch) -> None:
    """A push waits for the next batch, which nobody reads before the push is acknowledged."""
    patch.setattr(ClientState, "_must_look", lambda self: False)


@in_steps
def nobody_asks_what_others_changed(patch: pytest.MonkeyPatch) -> None:
    """A worker goes on with the rows that it has met once."""
    patch.setattr(MixedRows, "since", lambda self, host: None)
