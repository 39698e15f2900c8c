"""What a stream does next: a pure function of its ledger and of what the source offers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from heterps.errors import CheckpointError
from heterps.streaming.course import Do, End, EndDay, Learn, PassOver, Wait, next_step
from heterps.streaming.ledger import BASE, DELTA, KEEP, SHRINK, Cadence, Ledger
from heterps.streaming.portion import Nothing, Portion

OVER = Nothing("more")


def portion(day: str, name: str = "0", **rest: bool) -> Portion:
    return Portion(f"{day}/{name}", day, name, **rest)


class Walk:
    """A stream without effects: what it does in words, and the ledger of its last checkpoint."""

    def __init__(self, offers: Sequence[Portion | Nothing], cadence: Cadence, ledger: Ledger | None = None) -> None:
        self.left, self.cadence = list(offers), cadence
        self.ledger = self.kept = ledger or Ledger()
        self.told: list[str] = []
        self.told_before_kept = 0

    def step(self) -> bool:
        """Do one thing; False at the end."""
        step = next_step(self.ledger, self.cadence, self.left[0] if self.left else OVER, follow=False)
        match step:
            case End():
                return False
            case Do(what):
                self.told.append(what)
                self.do(what)
            case EndDay(day):
                self.told.append(f"end {day}")
                self.ledger = self.ledger.day_over(self.cadence)
            case Learn(found, late):
                self.told.append(f"{'late' if late else 'learn'} {found}")
                self.ledger = self.ledger.taken(self.left.pop(0), self.cadence, 10)
            case PassOver(found, why):
                self.told.append(f"over, {why}: {found}")
                self.ledger = self.ledger.taken(self.left.pop(0), self.cadence)
            case Wait():
                raise AssertionError("nobody follows")
        return True

    def do(self, what: str) -> None:
        if what in (BASE, DELTA):
            self.ledger = self.ledger.published(what, f"{self.ledger.sequence}")
        self.ledger = self.ledger.done(what)
        if what == KEEP:
            self.ledger = self.ledger.kept()
            self.kept = Ledger.from_json(json.loads(json.dumps(self.ledger.to_json())))
            self.told_before_kept = len(self.told)


def course(offers: Sequence[Portion | Nothing], cadence: Cadence, ledger: Ledger | None = None) -> Walk:
    """Walk to the end."""
    walk = Walk(offers, cadence, ledger)
    while walk.step():
        pass
    return walk


def test_checkpoints_deltas_and_the_end_of_a_day() -> None:
    offers = [portion("1", "a"), portion("1", "b"), portion("1", "c"), portion("2", "a")]
    walk = course(offers, Cadence(checkpoint_every=2, delta_every=3))
    ledger = walk.ledger
    assert walk.told == [
        *("learn 1 a", "learn 1 b", KEEP, "learn 1 c", DELTA, KEEP),
        *("end 1", SHRINK, BASE, KEEP, "learn 2 a", KEEP),
    ]
    assert (ledger.sequence, ledger.rows, ledger.ended, ledger.day) == (4, 40, "1", "2")


def test_a_day_of_which_nothing_more_is_expected_ends_at_once() -> None:
    told = course([portion("1", closes=True), portion("2")], Cadence()).told
    assert told == ["learn 1 0", SHRINK, BASE, KEEP, "learn 2 0", KEEP]
    told = course([portion("1"), Nothing("more", closes=True)], Cadence()).told
    assert told == ["learn 1 0", KEEP, "end 1", SHRINK, BASE, KEEP]


def test_days_may_be_left_alone() -> None:
    told = course([portion("1"), portion("2", closes=True)], Cadence(checkpoint_every=9, end_days=False)).told
    assert told == ["learn 1 0", "end 1", "learn 2 0", KEEP]


def test_late_passes_are_trained_on_or_skipped_and_end_no_day() -> None:
    offers = [portion("2", "a", closes=True), portion("2", "b"), portion("1", closes=True), portion("3")]
    told = course(offers, Cadence(checkpoint_every=99)).told
    assert told == ["learn 2 a", SHRINK, BASE, KEEP, "late 2 b", "late 1 0", "learn 3 0", KEEP]
    told = course(offers, Cadence(checkpoint_every=99, late="skip")).told
    assert told == ["learn 2 a", SHRINK, BASE, KEEP, "over, late: 2 b", "over, late: 1 0", "learn 3 0", KEEP]
    step = next_step(Ledger(ended="2"), Cadence(late="skip"), portion("2"), follow=False)
    assert step == PassOver(portion("2"), "late")
    # While a day is open, what lies before it is late, and what belongs to it is not.
    assert next_step(Ledger(day="2"), Cadence(), portion("1"), False) == Learn(portion("1"), late=True)
    assert next_step(Ledger(day="2", ended="1"), Cadence(), portion("2"), False) == Learn(portion("2"), late=False)


def test_a_missing_day_ends_like_any_other() -> None:
    told = course([portion("1"), portion("2", "", missing=True, closes=True), portion("3")], Cadence()).told
    assert told == [
        *("learn 1 0", KEEP, "end 1", SHRINK, BASE, KEEP),
        *("over, missing: 2", SHRINK, BASE, KEEP, "learn 3 0", KEEP),
    ]


def test_days_are_ordered_as_people_do() -> None:
    assert next_step(Ledger(day="9"), Cadence(), portion("10"), False) == EndDay("9")
    assert next_step(Ledger(day="10"), Cadence(), portion("9"), False) == Learn(portion("9"), late=True)
    # A source without days has one that never ends.
    assert next_step(Ledger(day=""), Cadence(), portion(""), False) == Learn(portion(""), late=False)


def test_waiting_and_ending() -> None:
    assert next_step(Ledger(), Cadence(), OVER, follow=True) == Wait("more")
    assert next_step(Ledger(), Cadence(), replace(OVER, expected=True), follow=False) == Wait("more")
    assert next_step(Ledger(), Cadence(), OVER, follow=False) == End()
    assert next_step(Ledger(since_checkpoint=1), Cadence(), OVER, follow=False) == Do(KEEP)


def test_what_lies_before_two_bases_is_forgotten() -> None:
    ledger = Ledger()
    for number, kind in enumerate([DELTA, BASE, DELTA, BASE, DELTA, BASE, DELTA]):
        ledger = ledger.published(kind, str(number))
    assert [(each.kind, each.folder) for each in ledger.outputs] == [
        (BASE, "3"),
        (DELTA, "4"),
        (BASE, "5"),
        (DELTA, "6"),
    ]


def test_checkpoints_hold_everything_now_and_then() -> None:
    ledger, whole = Ledger(), []
    for _ in range(20):
        whole.append(ledger.is_whole_due)
        ledger = ledger.kept()
    assert [n for n, each in enumerate(whole) if each] == [7, 15]
    assert ledger.published(BASE, "1").is_whole_due


DAYS = st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=12)


@settings(max_examples=60, deadline=None)
@given(DAYS, st.integers(1, 4), st.none() | st.integers(1, 4), st.integers(0, 40))
def test_a_crash_repeats_exactly_what_it_undid(
    days: list[tuple[int, bool, bool]], every: int, delta: int | None, crash: int
) -> None:
    """The ledger of a checkpoint and the portions after it are all that it takes."""
    offers = [
        Portion(n, str(day), str(n), missing=missing, closes=closes) for n, (day, missing, closes) in enumerate(days)
    ]
    straight, lost = course(offers, Cadence(every, delta)), Walk(offers, Cadence(every, delta))
    for _ in range(crash):
        lost.step()
    again = course(offers[lost.kept.sequence :], Cadence(every, delta), lost.kept)
    assert lost.told[: lost.told_before_kept] + again.told == straight.told
    assert again.ledger == straight.ledger


@pytest.mark.parametrize("value", [None, {}, {"format": "heterps-stream/1"}, Ledger().to_json() | {"more": 1}])
def test_what_is_no_ledger_is_refused(value: dict[str, object] | None) -> None:
    with pytest.raises(CheckpointError, match="stream"):
        Ledger.from_json(value)
