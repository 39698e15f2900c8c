"""What the engine has on a worker that computes where dense parameters are all-reduced: MemberState, parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heterps.protocol import BatchKey
from heterps.protocol.group.member import MemberState
from heterps.protocol.words import decisions as de, group as gr
from heterps.protocol.words.messages import Acked, Push, Request, StoreGroup
from heterps.simulator.network import Process
from heterps.simulator.rows import SimulatedShard

if TYPE_CHECKING:
    from heterps.simulator.world import World

__all__ = ["Member", "Settler"]


class Member:
    """A member of the group: the state machine, the parameters (one shard more), sums of segments."""

    def __init__(self, world: World, process: Process) -> None:
        self.world, self.process = world, process
        self.state = MemberState(process.name, world.scenario.spec.lanes)
        self.shard = SimulatedShard()
        self._payloads: dict[Push, Any] = {}  # gradients that lanes brought
        self._left: dict[BatchKey, tuple[BatchKey, int]] = {}  # gradients that the stage of this process computed
        self._kept: dict[tuple[int, int, int], Any] = {}  # by step and lane: the segment owned here
        self._sums: dict[str, Any] = {}  # by owner: its sum of the present step
        self._position: gr.Position | None = None  # of these sums

    def receive(self, message: Any, tag: Any = None, payload: Any = None) -> None:
        """Take a message with what came along, and carry out the decisions."""
        request = message.request if type(message) is gr.Relayed else message
        if type(request) is Push and payload is not None:
            self._payloads[request] = payload
        elif type(message) is Push and message.key in self._left:
            self._payloads[message] = (self._left[message.key],)
        if type(message) is gr.FormGroup and message.term > self.state.term:
            self._kept.clear()
            self._left.clear()
        for decision in self.state.handle(message, tag):
            getattr(self, _CARRY_OUT[type(decision)])(decision)

    def asked(self, request: Request, tag: Any) -> None:
        """Take a request of a lane elsewhere, which brings nothing along."""
        self.receive(request, tag)

    def leave(self, gradient: tuple[BatchKey, int]) -> None:
        """Take the gradient of a batch that the stage of this process computed, for the push that will name it."""
        self._left[gradient[0]] = gradient

    def _to(self, member: str, act: str, *args: Any) -> None:
        process = self.world.process(member)
        other = self.world.member(process)
        if process is self.process:
            getattr(other, act)(*args)
        else:
            self.world.net.send(process, getattr(other, act), *args)

    # --- carrying out

    def _answer(self, answer: de.Answer) -> None:
        answer.tag(answer.reply, None)

    def _serve(self, serve: de.Serve) -> None:
        serve.tag(serve.reply, [(self.world.scenario.spec.shards, self.shard.value)])

    def _report(self, report: de.Report) -> None:
        self.world.post(report.event)

    def _relay(self, relay: gr.Relay) -> None:
        request, home = relay.message.request, self

        def confirm(reply: Any, _: Any) -> None:
            if relay.member == home.process.name:
                home.receive(gr.Confirmed(relay.member, request, reply))
            else:
                home.world.net.send(home.process, home.receive, gr.Confirmed(relay.member, request, reply))

        payload = self._payloads.get(request) if type(request) is Push else None
        self._to(relay.member, "receive", relay.message, confirm, payload)

    def _keep(self, keep: de.Keep) -> None:
        push = keep.push
        self._kept[push.key.pass_, push.step, push.lane] = self._payloads[push]

    def _add(self, add: gr.Add) -> None:
        parts = [self._kept[(*add.position, push.lane)] for push in add.pushes]
        self._position, self._sums = add.position, {self.process.name: [grad for part in parts for grad in part]}

    def _fetch(self, fetch: gr.Fetch) -> None:
        """Ask, and ask again as long as it is wanted."""
        want = fetch.message
        if self.state.term != want.term or self._position != want.position or fetch.member in self._sums:
            return

        def given(reply: Any, total: Any) -> None:
            if total is not None:
                self.world.net.send(self.process, self._given, fetch, total)

        self._to(fetch.member, "receive", want, given)
        self.world.net.at(self.world.net.timeout, self.process, self._fetch, fetch)

    def _given(self, fetch: gr.Fetch, total: Any) -> None:
        want = fetch.message
        if self.state.term == want.term and self._position == want.position:
            self._sums[fetch.member] = total
            self.receive(gr.Fetched(want.term, fetch.member, want.position))

    def _give(self, give: gr.Give) -> None:
        give.tag(None, list(self._sums[self.process.name]))

    def _step(self, step: gr.TakeStep) -> None:
        """All owners must have added the same gradients; else the parameters show it for good."""
        sums = [self._sums[member] for member in self.state.members]
        self.shard.apply(sums[0] if all(total == sums[0] for total in sums) else [g for total in sums for g in total])
        for push in step.pushes:
            self._kept.pop((*step.position, push.lane), None)

    def _obtain(self, obtain: gr.Obtain) -> None:
        """Ask a member, or host 0, and ask again as long as it is wanted."""
        if self.state.term != obtain.term or self.state.serving:
            return
        if obtain.source:
            self._to(obtain.source, "hand_over", self, obtain.term)
        else:
            copy = self.world.copies[obtain.layout.copies[0]]
            self.world.net.send(copy.process, self._read, copy, obtain)
        self.world.net.at(self.world.net.timeout, self.process, self._obtain, obtain)

    def _read(self, copy: Any, obtain: gr.Obtain) -> None:
        """On host 0: send what it has of the group, and where its lanes stand."""
        if copy.state.serving and copy.state.term == obtain.layout.terms[0]:
            frontier = tuple(copy.state.lanes.frontier)
            shard = copy.rows.get(self.world.scenario.spec.shards, SimulatedShard())
            caught = gr.CaughtUp(obtain.term, gr.GroupState(min(frontier), frontier, ()))
            self.world.net.send(self.process, self.obtained, caught, shard.copy())

    def hand_over(self, other: Member, term: int) -> None:
        """Give everything to a member that is behind."""
        if self.state.term == term:
            caught = gr.CaughtUp(term, self.state.state())
            self.world.net.send(other.process, other.obtained, caught, self.shard.copy())

    def obtained(self, caught: gr.CaughtUp, shard: SimulatedShard) -> None:
        """Take what a member or a host gave, unless it came late."""
        if caught.term == self.state.term and not self.state.serving:
            self.shard = shard
            self.receive(caught)

    def _settle(self, settle: gr.Settle) -> None:
        Settler(self, settle).tick()


_CARRY_OUT = {
    de.Answer: "_answer",
    de.Serve: "_serve",
    de.Report: "_report",
    de.Keep: "_keep",
    gr.Relay: "_relay",
    gr.Add: "_add",
    gr.Fetch: "_fetch",
    gr.Give: "_give",
    gr.TakeStep: "_step",
    gr.Obtain: "_obtain",
    gr.Settle: "_settle",
}


class Settler:
    """Gives the group's parameters to the host that keeps them, and tries again until that worked."""

    def __init__(self, member: Member, settle: gr.Settle) -> None:
        self.member, self.settle = member, settle
        self.process = member.process
        self._tries = 30

    def tick(self) -> None:
        """Send it."""
        self._tries -= 1
        if self._tries and self.member.state.term == self.settle.term:
            world, layout = self.member.world, self.settle.layout
            store = StoreGroup(layout.terms[0], self.settle.serial)
            world.to_copy(layout.copies[0], store, (self, store), self.member.shard.copy())
            world.net.at(world.net.timeout, self.process, self.tick)

    def answered(self, host: int, store: StoreGroup, reply: Any, values: Any) -> None:
        """The host has them."""
        if type(reply) is Acked and self._tries:
            self._tries = 1
            self.member.receive(gr.Settled(self.settle.term, self.settle.serial))
