"""A group of members whose messages arrive at once: what lanes are told, and when."""

from collections.abc import Mapping
from typing import Any

import pytest

from heterps.errors import ProtocolError
from heterps.protocol.group.member import MemberState
from heterps.protocol.words import group as gr
from heterps.protocol.words.decisions import Answer, Report, Serve
from heterps.protocol.words.events import MemberReady, WrittenBack
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.layout import Layout
from heterps.protocol.words.messages import Acked, Advance, Ask, Granted, Pull, Push, Refused, Seen

LAYOUT = Layout(1, (1,), (1,), (0,))


class Together:
    """Members that hear each other at once, except for what is held back."""

    def __init__(self, *names: str, lanes: int = 2) -> None:
        self.members = {name: MemberState(name, lanes) for name in names}
        self.told: list[tuple[Any, Any]] = []  # tag and reply
        self.steps: dict[str, list[Any]] = {name: [] for name in names}
        self.added: dict[str, list[Any]] = {name: [] for name in names}
        self.events: list[Any] = []
        self.deaf: set[str] = set()  # members that hear nothing of others
        self.unheard: list[Any] = []
        self.form(1)

    def form(self, term: int, members: tuple[str, ...] = (), **sources: str) -> None:
        members = members or tuple(self.members)
        for name in members:
            self.tell(name, gr.FormGroup(name, term, 0, members))
        for name in members:
            self.tell(name, gr.CatchUp(name, term, sources.get(name, ""), 0, LAYOUT))

    def tell(self, name: str, message: Any, tag: Any = None) -> None:
        for decision in self.members[name].handle(message, tag):
            self.carry_out(name, decision)

    def carry_out(self, name: str, decision: Any) -> None:
        member = self.members[name]
        match decision:
            case Answer(tag, reply) if callable(tag):
                tag(reply)
            case Answer(tag, reply) | Serve(tag, _, reply):
                self.told.append((tag, reply))
            case Report(event):
                self.events.append(event)
            case gr.Relay(other, message) if other not in self.deaf:
                self.tell(other, message, lambda reply: self.tell(name, gr.Confirmed(other, message.request, reply)))
            case gr.Fetch(other) if other in self.deaf:
                self.unheard.append((name, decision))  # is asked again until it comes
            case gr.Fetch(other, want):
                self.tell(other, want, (name, other, want))
            case gr.Give((asker, owner, want), _):
                self.tell(asker, gr.Fetched(want.term, owner, want.position))
            case gr.Add(position, pushes):
                self.added[name].append((position, [push.lane for push in pushes]))
            case gr.TakeStep(position, _):
                self.steps[name].append(position)
            case gr.Obtain(term, source, _):
                state = self.members[source].state() if source else gr.GroupState((0, 0), ((0, 0),) * 2, ())
                self.tell(name, gr.CaughtUp(term, state))
            case gr.Settle(term, serial, _):
                self.tell(name, gr.Settled(term, serial))
        assert member.worker == name


def push(lane: int, step: int = 0, *, term: int = 1, attempt: int = 1, pass_: int = 0) -> Push:
    return Push(term, attempt, BatchKey(pass_, lane, step), lane, step, 1)


def replies(world: Together) -> Mapping[Any, Any]:
    return dict(world.told)


def test_a_push_is_answered_when_every_member_has_applied_its_step() -> None:
    world = Together("a", "b")
    world.tell("a", push(1), "one")
    assert not world.told
    world.tell("b", push(0), "zero")
    assert replies(world) == {"one": Acked(1), "zero": Acked(1)}
    assert world.steps == {"a": [(0, 0)], "b": [(0, 0)]}
    assert world.added == {"a": [((0, 0), [0, 1])], "b": [((0, 0), [0, 1])]}  # in lane order, whoever came first


def test_a_push_waits_for_a_member_that_hears_nothing() -> None:
    world = Together("a", "b")
    world.deaf = {"b"}
    world.tell("a", push(0), "zero")
    world.tell("a", push(1), "one")
    assert not world.told
    world.deaf = set()
    for asked in world.unheard:
        world.carry_out(*asked)
    world.tell("a", push(0), "zero again")
    world.tell("a", push(1), "one again")
    assert replies(world) == {"zero again": Acked(1), "one again": Acked(1)}


def test_pulls_wait_for_the_steps_before() -> None:
    world = Together("a", "b")
    world.tell("a", Pull(1, 1, BatchKey(0, 0, 0), 0, 0), "first")
    assert replies(world) == {"first": Granted(1)}
    world.tell("a", push(0), "zero")
    world.tell("b", Pull(1, 1, BatchKey(0, 0, 1), 0, 1), "second")
    assert "second" not in replies(world)
    world.tell("b", push(1), "one")
    assert replies(world)["second"] == Granted(1)


def test_a_lane_that_has_ended_is_not_waited_for() -> None:
    world = Together("a", "b")
    world.tell("b", Advance(1, 1, BatchKey(1, -1, 0), 1, 0), "ended")
    world.tell("a", push(0), "zero")
    assert replies(world) == {"ended": Acked(1), "zero": Acked(1)}
    assert world.added["b"] == [((0, 0), [0])]


def test_asking_fences_on_every_member() -> None:
    world = Together("a", "b")
    world.tell("a", Ask(1, 7, BatchKey(0, 0, 0), 0, 7), "asked")
    assert replies(world) == {"asked": Seen(1, 0, 0)}
    world.tell("b", push(0, attempt=6), "old")
    assert replies(world)["old"] == Refused(1, fenced=True)
    world.tell("b", push(1, attempt=6), "another lane")
    assert "another lane" not in replies(world)


def test_what_is_not_applied_does_not_count_and_what_is_does() -> None:
    world = Together("a", "b")
    world.tell("a", push(0), "zero")
    world.tell("b", Ask(1, 9, BatchKey(0, 0, 0), 0, 9), "asked")
    assert replies(world)["asked"] == Seen(1, 0, 1)
    world.tell("b", push(1), "one")
    world.tell("b", Ask(1, 10, BatchKey(0, 0, 0), 0, 10), "again")
    assert replies(world)["again"] == Seen(1, 1, 1)


def test_a_new_term_forgets_what_was_under_way_and_keeps_what_was_applied() -> None:
    world = Together("a", "b")
    world.tell("a", push(0), "zero")
    world.tell("b", push(1), "one")
    world.tell("a", push(0, 1), "under way")
    world.form(2, ("a",), a="a")
    assert world.members["a"].applied == (0, 1)
    world.tell("a", push(0, 1), "late")
    assert replies(world)["late"] == Refused(2)
    world.tell("a", push(1, 1, term=2), "one again")
    world.tell("a", push(0, 1, term=2), "zero again")
    assert replies(world)["zero again"] == replies(world)["one again"] == Acked(2)
    assert world.steps["a"] == [(0, 0), (0, 1)]


def test_a_new_member_goes_on_from_where_its_source_is() -> None:
    world = Together("a", lanes=2)
    world.tell("a", push(0), "zero")
    world.tell("a", push(1), "one")
    world.members["b"] = MemberState("b", 2)
    world.steps["b"], world.added["b"] = [], []
    world.form(2, a="a", b="a")
    assert world.members["b"].state() == world.members["a"].state()
    assert world.events.count(MemberReady("b", 2)) == 1
    world.tell("b", push(0, 1, term=2), "zero")
    world.tell("a", push(1, 1, term=2), "one")
    assert world.steps["b"] == [(0, 1)]


def test_writing_back_is_told_under_its_term_only() -> None:
    world = Together("a", "b")
    world.tell("a", gr.WriteBack("a", 1, 5, LAYOUT))
    world.tell("a", gr.WriteBack("a", 0, 4, LAYOUT))
    assert [event for event in world.events if isinstance(event, WrittenBack)] == [WrittenBack("a", 1, 5)]


def test_what_a_member_cannot_handle_is_named() -> None:
    with pytest.raises(ProtocolError, match="member a: a member cannot handle 'what'"):
        MemberState("a", 1).handle("what")
