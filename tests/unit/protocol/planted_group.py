"""Bugs to plant in the all-reduce group, one per rule of docs/protocol.md: the simulator must find every one."""

from dataclasses import replace
from typing import Any

import pytest

from heterps.protocol import ClientState, HostState, RunState
from heterps.protocol.group.member import MemberState
from heterps.protocol.run.group import ReduceGroup
from heterps.protocol.words import group as gr
from heterps.protocol.words.decisions import Answer
from heterps.protocol.words.messages import Push, Refused
from tests.unit.protocol.planting import Planted

planted = PLANTED = Planted()
of_stages = PLANTED_IN_STAGES = Planted()  # where stage workers are the members


@planted
def told_when_one_member_has_it(patch: pytest.MonkeyPatch) -> None:
    """A lane is told that its push is done when its own worker has applied it."""
    good = MemberState._confirmed

    def confirmed(self: MemberState, confirmed: gr.Confirmed, tag: Any) -> Any:
        call = self._open.get(confirmed.request)
        if call is not None and type(confirmed.request) is Push and confirmed.member == self.worker:
            call.missing = {self.worker}
        return good(self, confirmed, tag)

    patch.setattr(MemberState, "_confirmed", confirmed)


@planted
def pushed_to_the_group_with_the_hosts(patch: pytest.MonkeyPatch) -> None:
    """The group gets a push while hosts may still lack it."""

    def send_all(self: ClientState, kind: type, n: int) -> Any:
        hosts = range(len(self.layout.holders))
        self._missing[kind, n] = set(hosts)
        return [self._send(host, kind, n) for host in hosts]

    patch.setattr(ClientState, "_send_all", send_all)


@planted
def added_in_order_of_arrival(patch: pytest.MonkeyPatch) -> None:
    """An owner adds lanes as they came."""
    patch.setattr(MemberState, "_in_order", lambda self, position: tuple(self.staged[position].values()))


@planted
def what_was_under_way_survives(patch: pytest.MonkeyPatch) -> None:
    """A new term keeps the pushes that were staged under the old one: other members may not have them."""
    good = MemberState._begin

    def begin(self: MemberState, form: gr.FormGroup) -> None:
        frontier, staged = list(self.frontier), self.staged
        good(self, form)
        if self.applied is not None:
            self.frontier, self.staged = frontier, staged

    patch.setattr(MemberState, "_begin", begin)


@planted
def nothing_is_written_back(patch: pytest.MonkeyPatch) -> None:
    """Cuts and the end do not wait until the hosts have the group's parameters."""

    def write_back(self: ReduceGroup, layout: Any) -> Any:
        instructions = good(self, layout)
        self.owed = False
        return instructions

    good = ReduceGroup.write_back
    patch.setattr(ReduceGroup, "write_back", write_back)


@planted
def old_parameters_are_taken(patch: pytest.MonkeyPatch) -> None:
    """A host takes what the group gave it whenever that arrives."""

    def store(self: HostState, store: Any, tag: Any) -> Any:
        if store.term != self.term or not self.serving:
            return [Answer(tag, Refused(self.term))]
        return self._ordered(store, tag)

    patch.setattr(HostState, "_store", store)


@planted
def new_members_ask_the_hosts(patch: pytest.MonkeyPatch) -> None:
    """Who joins takes the parameters as the hosts got them last."""
    good = ReduceGroup.catch_up

    def catch_up(self: ReduceGroup, pass_: int, layout: Any) -> Any:
        return [
            i if i.source == i.worker else gr.CatchUp(i.worker, i.term, "", i.pass_, i.layout)  # type: ignore[attr-defined]
            for i in good(self, pass_, layout)
        ]

    patch.setattr(ReduceGroup, "catch_up", catch_up)


@planted
def members_behind_stay_behind(patch: pytest.MonkeyPatch) -> None:
    """Who has parameters of this base keeps them, though others are a step further."""
    good = ReduceGroup.catch_up

    def catch_up(self: ReduceGroup, pass_: int, layout: Any) -> Any:
        own = [worker for worker, applied in self._formed.items() if applied is not None]
        return [
            gr.CatchUp(i.worker, i.term, i.worker if i.worker in own else i.source, i.pass_, i.layout)  # type: ignore[attr-defined]
            for i in good(self, pass_, layout)
        ]

    patch.setattr(ReduceGroup, "catch_up", catch_up)


@planted
def a_lane_waits_in_silence(patch: pytest.MonkeyPatch) -> None:
    """A lane that was told to stop does not say that it waits for the others."""
    patch.setattr(ClientState, "_say_that_it_waits", lambda self: [])


@planted
def the_run_goes_on_without_the_group(patch: pytest.MonkeyPatch) -> None:
    """All members are lost, and the run goes on with what the hosts got last."""
    patch.setattr(ReduceGroup, "lost", property(lambda self: False))


@planted
def parameters_survive_a_return_to_a_cut(patch: pytest.MonkeyPatch) -> None:
    """Hosts return to the cut, members keep what they have."""

    def reset(self: ReduceGroup) -> None:
        self.dissolve()

    patch.setattr(ReduceGroup, "reset", reset)


@planted
def relays_without_term(patch: pytest.MonkeyPatch) -> None:
    """A member takes what was meant for an earlier group."""
    good = MemberState._relayed

    def relayed(self: MemberState, relayed: gr.Relayed, tag: Any) -> Any:
        request = replace(relayed.request, term=self.term)
        return good(self, gr.Relayed(self.term, relayed.home, request), tag)

    patch.setattr(MemberState, "_relayed", relayed)


@of_stages
def any_member_computes(patch: pytest.MonkeyPatch) -> None:
    """A batch is computed by the stage worker that has least to do, not by its lane's home."""
    patch.setattr(ClientState, "_able", lambda self: self.layout.stages)


@of_stages
def lanes_go_on_under_a_new_term(patch: pytest.MonkeyPatch) -> None:
    """Lanes push again what stage workers computed under the last term, or compute what that term had granted."""
    patch.setattr(RunState, "_begin_lanes_anew", lambda self: None)


@of_stages
def the_group_outlives_its_members(patch: pytest.MonkeyPatch) -> None:
    """Stage workers come and go, and the group stays as it was."""
    patch.setattr(RunState, "_restage", lambda self: self._announce())


@of_stages
def one_made_anew_computes(patch: pytest.MonkeyPatch) -> None:
    """A stage that was made anew computes a batch that the one before it had granted, with parameters of its own."""
    patch.setattr(MemberState, "has_parameters_of", lambda self, term: True)
