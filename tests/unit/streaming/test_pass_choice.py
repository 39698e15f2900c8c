"""Which pass comes next."""

from __future__ import annotations

import pytest

from heterps.errors import CheckpointError
from heterps.streaming.pass_choice import FoundPass, PassSchedule, Past, pick
from heterps.streaming.pattern import NamedPass
from heterps.streaming.portion import Nothing, Portion


def found(*names: str, growing: str = "", undone: str = "") -> list[FoundPass]:
    """Make passes of names such as ``1/a``."""
    return [
        FoundPass(NamedPass(*name.split("/")), (name,), name not in (growing, undone), name == growing)
        for name in names
    ]


def walk(passes: list[FoundPass], schedule: PassSchedule, waited_s: float = 0.0, after: object = None) -> list[str]:
    """Take what comes, until nothing does; say what that was."""
    told, past = [], Past.from_json(after, 7)
    while True:
        answer = pick([one for one in passes if past.may_come(one.which)], past, schedule, lambda _: waited_s).result
        if isinstance(answer, Nothing):
            return [*told, f"{'expect' if answer.expected else 'wait for'} {answer.awaited}" + ", end" * answer.closes]
        marks = "".join((" missing" * answer.missing, " closes" * answer.closes))
        told.append(f"{answer.day}/{answer.name}{marks}")
        past = Past.from_json(answer.position, 7)


def test_without_lists_what_is_there_comes_in_order() -> None:
    assert walk(found("1/a", "1/b", "2/a"), PassSchedule()) == ["1/a", "1/b", "2/a", "wait for another pass"]


def test_a_pass_that_is_written_holds_up_those_behind_it() -> None:
    assert walk(found("1/a", "1/b", "2/a", growing="1/b"), PassSchedule()) == [
        "1/a",
        "expect pass 1 b to stay as it is",
    ]


def test_one_without_its_done_file_holds_up_those_behind_it_once_there_are_some() -> None:
    assert walk(found("1/a", "1/b", undone="1/b"), PassSchedule()) == ["1/a", "wait for another pass"]
    assert walk(found("1/a", "1/b", "2/a", undone="1/b"), PassSchedule()) == ["1/a", "expect pass 1 b"]


def test_lists_say_what_is_expected_and_when_days_end() -> None:
    schedule = PassSchedule(days=("1", "2"), passes=("a", "b"))
    assert walk(found("1/a", "1/b", "1/c", "2/a", "3/a"), schedule) == ["1/a", "1/b closes", "2/a", "expect pass 2 b"]
    assert walk(found("1/a", "1/b", "2/a", "2/b"), schedule)[-1] == "wait for another pass, end"


def test_what_does_not_come_is_given_up() -> None:
    schedule = PassSchedule(days=("1", "2", "3"), passes=("a", "b"), give_up_s=60.0)
    passes = found("1/b", "3/a", "3/b")
    assert walk(passes, schedule, waited_s=59.0) == ["expect pass 1 a"]
    assert walk(passes, schedule, waited_s=60.0) == [
        *("1/a missing", "1/b closes", "2/a missing", "2/b missing closes", "3/a", "3/b closes"),
        "wait for another pass, end",
    ]


def test_a_day_without_any_pass_is_missing() -> None:
    schedule = PassSchedule(days=("1", "2", "3"), give_up_s=0.0)
    assert walk(found("1/a", "3/a"), schedule) == ["1/a", "2/ missing closes", "3/a", "wait for another pass, end"]


def test_without_a_list_of_days_a_gap_counts_only_once_something_lies_behind_it() -> None:
    schedule = PassSchedule(passes=("a", "b"), give_up_s=0.0)
    assert walk(found("1/a"), schedule) == ["1/a", "wait for another pass"]
    assert walk(found("1/a", "2/a"), schedule) == ["1/a", "1/b missing closes", "2/a", "wait for another pass"]


def test_what_was_given_up_is_taken_when_it_comes_after_all() -> None:
    schedule = PassSchedule(days=("1",), passes=("a", "b"), give_up_s=0.0)
    passes = found("1/b")
    answer = pick(passes, Past(), schedule, lambda _: 0.0).result
    assert isinstance(answer, Portion)
    assert answer.missing
    assert walk(found("1/a", "1/b"), schedule, after=answer.position) == [
        "1/a",
        "1/b closes",
        "wait for another pass, end",
    ]


def test_a_pass_that_comes_again_is_not_taken_again() -> None:
    past = Past().with_pass(NamedPass("1", "a"), "taken")
    assert walk(found("1/a", "1/b"), PassSchedule(), after=past.to_json()) == ["1/b", "wait for another pass"]


def test_of_old_days_nothing_comes_any_more() -> None:
    past = Past(most=2)
    for day in ("1", "2", "3"):
        past = past.with_pass(NamedPass(day, "a"), "taken")
    assert list(past.days) == ["2", "3"]
    assert not past.may_come(NamedPass("1", "b"))
    assert past.may_come(NamedPass("2", "b"))


@pytest.mark.parametrize("position", [3, {"days": 1}, {"days": {"1": 2}, "before": None}, ["a"]])
def test_the_position_of_another_source_is_refused(position: object) -> None:
    with pytest.raises(CheckpointError, match="no position in folders"):
        Past.from_json(position, 7)
