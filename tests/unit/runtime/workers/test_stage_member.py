"""A member of an all-reduce group on a stage worker: what the stage reads there and leaves there, and for how long."""

from typing import Any

import numpy as np
import pytest

from heterps.errors import RunError
from heterps.kernels.program.param_layout import ParamLayout
from heterps.planner.ways import resolve_ways
from heterps.protocol.words.group import CatchUp, CaughtUp, FormGroup, GroupState, WriteBack
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.layout import Layout
from heterps.protocol.words.messages import Acked, Granted, Pull, Push
from heterps.protocol.words.modes import Sync
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import PushedGradients, Wanted
from heterps.runtime.batch.stage_params import StageParams
from heterps.runtime.wire.packing import pack_request, unpack_reply
from heterps.runtime.wire.peer import PeerLost
from heterps.runtime.workers.stage import StageService
from heterps.runtime.workers.stage_member import StageMember
from heterps.stages import partition
from heterps.testing.small_model import graph

MODEL = Model(graph(4, 0.0))
STAGES = tuple(part.ops for part in partition(MODEL.graph).parts)
LAYOUT = ParamLayout(MODEL.lowered.graph, STAGES[1])


def job(**ways: str) -> Job:
    return Job(MODEL, 8, Sync(), lanes=1, stages=STAGES, ways=resolve_ways(MODEL.graph, ways))


def no_peer(name: str | int) -> Any:
    raise AssertionError(f"{name} is called")


class Alone:
    """A group of one member, which begins with what its seed gives."""

    def __init__(self, **ways: str) -> None:
        self.events: list[Any] = []
        self.member = StageMember(job(**ways), "a", self.events.append, no_peer, lambda error: None)
        self.form(1)

    def form(self, term: int) -> None:
        self.member.deliver(FormGroup("a", term, 0, ("a",)))
        source = "a" if term > 1 else ""
        if source:
            self.member.deliver(CatchUp("a", term, source, 0, Layout(1, (), (), ())))
        else:
            self.member.state.handle(CaughtUp(term, GroupState((0, 0), ((0, 0),), ())))

    def params(self) -> np.ndarray:
        found = StageParams(np.zeros(LAYOUT.size, np.float32))
        self.member.fill(LAYOUT, found)
        return found.flat

    def left(self, seed: int, value: float = 1.0, term: int = 1) -> bool:
        return self.member.keep(seed, LAYOUT, np.full(LAYOUT.size, value, np.float32), term)

    def push(self, step: int, seed: int, term: int = 1) -> Any:
        answers: list[Any] = []
        push = Push(term, 1, BatchKey(0, 0, step), 0, step, 1)
        self.member.request(push, PushedGradients({}, kept=(seed,)), lambda reply, _: answers.append(reply))
        return answers


def test_a_push_brings_what_the_stage_has_left_and_steps_once() -> None:
    alone = Alone(fc="allreduce", out="allreduce")
    before = alone.params()
    assert alone.left(7), "all parameters of the stage are the group's"
    assert alone.push(0, 7) == [Acked(1)]
    after = alone.params()
    assert (after != before).all()
    assert alone.push(0, 7) == [Acked(1)], "said again, when its gradient is gone"
    assert np.array_equal(alone.params(), after)


def test_parameters_that_go_by_their_tables_are_neither_read_nor_taken_here() -> None:
    alone = Alone(fc="allreduce")
    assert not alone.left(7), "the rest goes back"
    mine = np.concatenate([np.arange(p.span.start, p.span.stop) for p in LAYOUT if p.op == "fc"])
    flat = alone.params()
    assert np.flatnonzero(flat).size
    assert set(np.flatnonzero(flat)) <= set(mine)


def test_parameters_are_brought_once_as_long_as_nothing_changed() -> None:
    alone = Alone(fc="allreduce", out="allreduce")
    params = StageParams(np.zeros(LAYOUT.size, np.float32))
    alone.member.fill(LAYOUT, params)
    params.changed = False
    alone.member.fill(LAYOUT, params)
    assert not params.changed
    alone.left(7)
    alone.push(0, 7)
    alone.member.fill(LAYOUT, params)
    assert params.changed


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_gradient_of_the_last_term_is_not_taken(when: str) -> None:
    alone = Alone(fc="allreduce", out="allreduce")
    if when == "before":
        alone.left(7)
    alone.form(2)
    if when == "after":  # it was begun under the last one
        alone.left(7)
    with pytest.raises(RunError, match=r"member a without its gradient"):
        alone.push(0, 7, term=2)


def test_what_nobody_pushed_is_forgotten_when_nothing_is_in_flight() -> None:
    alone = Alone(fc="allreduce", out="allreduce")
    alone.left(7)
    alone.left(8)
    alone.push(0, 7)
    assert list(alone.member._left) == [8]
    alone.member.deliver(WriteBack("a", 1, 1, Layout(1, (), (), ())))
    assert not alone.member._left


def test_lanes_of_other_processes_ask_and_pull_without_parameters() -> None:
    alone = Alone(fc="allreduce", out="allreduce")
    request = alone.member.methods["request"]
    pull = Pull(1, 1, BatchKey(0, 0, 0), 0, 0)
    reply, pulled = unpack_reply(request(pack_request(pull, Wanted({}))), Wanted({}))
    assert reply == Granted(1)
    assert pulled is not None
    assert pulled.dense is None
    later = Pull(1, 1, BatchKey(0, 0, 1), 0, 1)
    assert request(pack_request(later, Wanted({}))).head == {"wait": True}


class FromMember:
    """Dense parameters of a stage, all of which its group has."""

    def __init__(self, member: StageMember) -> None:
        self._member = member

    def fill(self, layout: ParamLayout, params: StageParams) -> None:
        self._member.fill(layout, params)

    def holder(self) -> None:
        return None

    def rows(self, seed: int, ids: Any) -> Any:
        raise AssertionError("nothing was lent")

    def member(self) -> StageMember:
        return self._member


def test_a_stage_computes_with_parameters_of_the_term_under_which_its_lane_was_granted() -> None:
    alone = Alone(fc="allreduce", out="allreduce")
    stage = StageService(job(fc="allreduce", out="allreduce"), 1, FromMember(alone.member))
    assert alone.member.has_parameters_of(1)
    alone.form(2)
    with pytest.raises(PeerLost, match="not of term 1"):
        stage.step(7, {}, 1)
    alone.member.deliver(FormGroup("a", 3, 0, ("a",)))
    with pytest.raises(PeerLost, match="not of term 3"):  # it has not caught up
        stage.step(7, {}, 3)
