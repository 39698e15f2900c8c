"""What the engine has on workers: the actor of a shard host's copy, and the task of an attempt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from heterps.protocol import BatchKey, Cached, ClientState, HostState, Mixed, MixedSync, Mode
from heterps.protocol.client import state as cl
from heterps.protocol.words import decisions as de, events as ev, instructions as do
from heterps.protocol.words.messages import Acked, Granted, Pull, Push, Refused, Reply, Request, StoreGroup
from heterps.simulator.cached_rows import CacheRows, Owed
from heterps.simulator.mixed_rows import MixedRows
from heterps.simulator.network import Process
from heterps.simulator.own_rows import Mark, News, OwnRows, ServedRows
from heterps.simulator.rows import SimulatedShard, gradient

if TYPE_CHECKING:
    from heterps.simulator.world import World

__all__ = ["Copy", "Task"]

READ_AHEAD = 2  # batches, as the engine does
Grads = tuple[tuple[BatchKey, int], ...]
Payload = tuple[tuple[int, ...], Grads | Owed, Mark | None]
"""What comes with a push: for which shards, the gradients of its batches, and up to when its sender knows of others."""


class Copy:
    """A copy of a shard host: HostState and the rows it decides about."""

    def __init__(self, world: World, process: Process, create: do.CreateHost) -> None:
        spec = world.scenario.spec
        self.world, self.process, self.number, self.host = world, process, create.copy, create.host
        self.state = HostState(create.copy, spec.mode, spec.lanes)
        self.rows: dict[int, SimulatedShard] = {}
        self._payloads: dict[Any, Any] = {}
        self._kept: dict[tuple[int, int, int], Payload] = {}
        self._ticking = False
        self._tables, self._changes = world.new_tables(), 0
        self._changed: dict[int, int] = {}  # by shard: with which change
        self.retired = False  # its driver is gone: it takes nothing any more

    @property
    def is_there(self) -> bool:
        """Whether another driver can go on with it."""
        return self.process.alive and not self.process.frozen and not self.process.lost and self.state.serving

    def take_over(self, before: Copy) -> None:
        """Go on with what a driver before left."""
        self.state.go_on_as(before.state)
        self.rows, self._kept = before.rows, dict(before._kept)

    def receive(self, message: Any, tag: Any = None, payload: Any = None) -> None:
        """Take a message with what came along, and carry out the decisions."""
        if self.retired:
            return
        kind = type(message)
        if kind is Push or kind is de.TakeIn or kind is StoreGroup or (kind is Pull and payload is not None):
            self._payloads[message] = payload
        elif kind is de.Forward and payload is not None:
            self._payloads[message.request] = payload
        elif kind is de.Fill and not self.state.replica.filled and not self.state.serving:
            self.rows = {number: shard.copy() for number, shard in payload[0].items()}
            self._kept = dict(payload[1])
            self._begin_anew()
        for decision in self.state.handle(message, tag):
            self.world.net.met[type(decision)] += 1
            getattr(self, _CARRY_OUT[type(decision)])(decision)
        if self.state.replica.backup is not None and not self._ticking:
            self._tick_later()

    def _tick_later(self) -> None:
        self._ticking = True
        self.world.net.at(self.world.net.timeout, self.process, self.tick)

    def tick(self) -> None:
        """Send again what the backup did not confirm."""
        if self.retired:
            return
        self._ticking = False
        again = self.state.resend()
        for decision in again:
            getattr(self, _CARRY_OUT[type(decision)])(decision)
        if again:
            self._tick_later()

    # --- carrying out

    def _answer(self, answer: de.Answer) -> None:
        task, request = answer.tag
        follows = type(request) is Push and type(answer.reply) is Acked and request.settles > 0
        follows = follows and not self.state.mode.ordered  # there it is not committed yet
        news = self._news(self._payloads[request][2]) if follows else None
        self.world.net.send(task.process, task.answered, self.host, request, answer.reply, news)

    def _news(self, since: Mark | None) -> News:
        """Say what changed since a mark."""
        truth = {number: self.rows[number].value for number in self.state.owned}
        known = since is not None and since[0] == self._tables
        later = {n: v for n, v in truth.items() if since is not None and self._changed.get(n, 0) > since[1]}
        return News((self._tables, self._changes), known, later, truth)

    def _begin_anew(self) -> None:
        """The rows are others now: what changed since an earlier moment is not known."""
        self._tables, self._changes, self._changed = self.world.new_tables(), 0, {}

    def _note(self, shards: Iterable[int]) -> None:
        self._changes += 1
        self._changed.update(dict.fromkeys(shards, self._changes))

    def _serve(self, serve: de.Serve) -> None:
        task, request = serve.tag
        values = tuple((number, self.rows[number].value) for number in self.state.owned)
        seen = {n: (self.rows[n].loaded, frozenset(self.rows[n].counts)) for n, _ in values if self.state.mode.has_copy}
        since = self._payloads.get(request)
        served = ServedRows((self._tables, self._changes), values, seen, None if since is None else self._news(since))
        self.world.net.send(task.process, task.answered, self.host, request, serve.reply, served)

    def _apply(self, apply: de.Apply) -> None:
        shards, grads, _ = self._payloads[apply.push]
        self._note(shards)
        if isinstance(grads, Owed):
            self._check_basis(grads)
        for number in shards:
            if number in self.rows:
                self.rows[number].apply(_of_shard(grads, number))

    def _check_basis(self, owed: Owed) -> None:
        """What is taken must have been computed from rows of the state that this copy is in, not of one it has left."""
        for number, loaded in owed.based_on.items():
            if number in self.rows and loaded != {self.rows[number].loaded}:
                self.world.problem = f"shard {number} takes gradients of rows as they were before it returned to a cut"

    def _keep(self, keep: de.Keep) -> None:
        push = keep.push
        self._kept[push.key.pass_, push.step, push.lane] = self._payloads[push]

    def _commit(self, commit: de.Commit) -> None:
        kept = [self._kept.pop((*commit.position, push.lane)) for push in commit.pushes]
        for number, shard in self.rows.items():
            if number != self.world.scenario.spec.shards:
                owed = (_of_shard(grads, number) for shards, grads, _ in kept if number in shards)
                step = [grad for grads in owed for grad in grads]
                if step:
                    self._note([number])
                    shard.apply(step)

    def _load(self, load: de.Load) -> None:
        self._kept.clear()
        self.world.net.at(self.world.net.loading(), self.process, self._loaded, load)

    def _loaded(self, load: de.Load) -> None:
        if load.term == self.state.term and not self.state.serving:
            if self.world.disk.is_broken(load.cut):
                self.world.post(ev.CutLost(load.cut, self.world.disk.before(load.cut), "a bit has flipped"))
                return
            shards, state = self.world.disk.read(load.cut)
            group = [self.world.scenario.spec.shards] if self.world.scenario.spec.group and self.host == 0 else []
            self.rows = {
                number: shards[number].copy() if number in shards else SimulatedShard()
                for number in (*load.owned, *group)
            }
            self._begin_anew()
            for shard in self.rows.values():
                shard.loaded = self._tables
            self.receive(de.Loaded(load.term, state))

    def _mark(self, mark: de.Mark) -> None:
        rows = {number: shard.copy() for number, shard in self.rows.items() if self._is_mine(number)}
        self.world.net.at(self.world.net.writing(), self.process, self._write, mark.cut, rows, mark.state)

    def _write(self, cut: int, rows: dict[int, SimulatedShard], state: dict[str, Any]) -> None:
        if self.world.disk.full:
            self.world.post(ev.CutFailed(self.number, cut, "disk full"))
        else:
            self.world.disk.write(cut, rows, state)
            self.world.post(ev.CutWritten(self.number, cut))

    def _is_mine(self, number: int) -> bool:
        """Host 0 also keeps what the all-reduce group gave it, behind all shards."""
        return number in self.state.owned or number == self.world.scenario.spec.shards

    def _take(self, take: de.Take) -> None:
        self.rows[self.world.scenario.spec.shards] = self._payloads[take.message].copy()

    def _insert(self, insert: de.Insert) -> None:
        self.rows.update({number: shard.copy() for number, shard in self._payloads[insert.message].items()})
        self._note(self._payloads[insert.message])

    def _retain(self, retain: de.Retain) -> None:
        self.rows = {number: shard for number, shard in self.rows.items() if self._is_mine(number)}
        self._kept.clear()

    def _dismiss(self, dismiss: de.Dismiss) -> None:
        """Marks are the workers' own here: there is nothing to free."""

    def _report(self, report: de.Report) -> None:
        self.world.post(report.event)

    def _forward(self, forward: de.Forward) -> None:
        self.world.to_copy(forward.backup, forward, self.number, self._payloads.get(forward.request))

    def _fill(self, fill: de.Fill) -> None:
        rows = {number: shard.copy() for number, shard in self.rows.items()}
        self.world.to_copy(fill.backup, fill, self.number, (rows, dict(self._kept)))

    def _confirm(self, confirm: de.Confirm) -> None:
        self.world.to_copy(confirm.primary, confirm)


_CARRY_OUT = {
    de.Answer: "_answer",
    de.Serve: "_serve",
    de.Apply: "_apply",
    de.Keep: "_keep",
    de.Commit: "_commit",
    de.Load: "_load",
    de.Mark: "_mark",
    de.Insert: "_insert",
    de.Take: "_take",
    de.Retain: "_retain",
    de.Dismiss: "_dismiss",
    de.Report: "_report",
    de.Forward: "_forward",
    de.Fill: "_fill",
    de.Confirm: "_confirm",
}


def _of_shard(grads: Grads | Owed, number: int) -> Grads:
    """Return what a push brings one shard: the same for all, unless they were gathered by shard."""
    return grads.grads.get(number, ()) if isinstance(grads, Owed) else grads


class Task:
    """The task of one attempt: ClientState, the reader, and the gradients it holds until they are acknowledged."""

    def __init__(self, world: World, process: Process, run: do.RunSplit) -> None:
        self.world, self.process, self.run = world, process, run
        self.client = ClientState(run, world.mode_on(process))
        self._own = self._enter() if world.scenario.spec.mode.has_copy else None
        self._pulled: dict[int, list[tuple[int, int]]] = {}
        self._grads: dict[int, tuple[BatchKey, int]] = {}
        self._calls: dict[tuple[int, Request], float] = {}
        self._steps: dict[tuple[BatchKey, str], float] = {}
        self._stepping: set[int] = set()  # batches that are being computed
        self._ticking = False

    def start(self) -> None:
        """Begin."""
        self._act(self.client.start())

    def _enter(self) -> OwnRows | CacheRows:
        """Take rows of the worker that nobody trains on, or new ones."""
        rows = next((rows for rows in self.process.own_rows if rows.user is None), None)
        if rows is None:
            spec = self.world.scenario.spec
            rows = self._new_rows(spec.mode, spec.shards)
            self.process.own_rows.append(rows)
        rows.enter(self.run.attempt, self.run.layout.terms)
        return rows

    def _new_rows(self, mode: Mode, shards: int) -> OwnRows | CacheRows:
        if isinstance(mode, Cached):
            return CacheRows(mode, shards, self.world.ran)
        return MixedRows(mode) if isinstance(mode, Mixed | MixedSync) else OwnRows()

    def _leave(self, *, whole: bool) -> None:
        if self._own is not None:
            self._own.leave(self.client.layout.terms, whole=whole)
            self._own = None

    def receive(self, message: Any) -> None:
        """Take an instruction, or something the engine itself did."""
        self._act(self.client.handle(message))

    def answered(self, host: int, request: Request, reply: Reply, values: Any) -> None:
        """An answer of a host arrived."""
        if type(reply) is not Refused:  # a refusal is no answer: the timeout goes on, then it is sent again
            self._calls.pop((host, request), None)
        if type(reply) in (Granted, Acked) and self.client.accepts(host, request, reply):
            self._take(host, request, reply, values)
        self._act(self.client.reply(host, request, reply))

    def _take(
        self, host: int, request: Request, reply: Reply, values: ServedRows | News | Sequence[tuple[int, int]] | None
    ) -> None:
        """Take what came with an answer that counts."""
        if isinstance(values, News):
            if isinstance(self._own, OwnRows):
                self._blame(self._own.hear(host, values))
            return
        rows = values.values if isinstance(values, ServedRows) else values or ()
        self._pulled.setdefault(request.key.n, []).extend(rows)
        if self._own is not None and isinstance(values, ServedRows):
            assert isinstance(reply, Granted)
            self._blame(self._own.receive(request.key, host, values, reply.low))

    def _blame(self, problem: str) -> None:
        """Tell what a working copy found wrong, if anything."""
        self.world.problem = self.world.problem or problem

    def computed(self, key: BatchKey, stage: str, made: tuple[BatchKey, int] | None = None) -> None:
        """A stage actor returned the gradients of a batch; ``made`` where it has parameters that nobody else sees."""
        self._steps.pop((key, stage), None)
        if key.n in self._stepping:  # else another stage worker has done it meanwhile
            self._stepping.discard(key.n)
            self._grads[key.n] = made or self.gradient(key)
            if self._own is not None:
                self._blame(self._own.learn(self._grads[key.n]))
        self.receive(cl.Computed(key, stage))

    def gradient(self, key: BatchKey, *more: tuple[int, int]) -> tuple[BatchKey, int]:
        """Compute a batch from what was pulled for it, and what is only where it is computed."""
        own = self._own.values(key) if self._own is not None else ()
        return key, gradient(key, [*self._pulled.get(key.n, []), *own, *more])

    def _act(self, actions: list[cl.Action]) -> None:
        for action in actions:
            getattr(self, _ACT[type(action)])(action)
        if self.client.stopped:
            self._leave(whole=False)
        if (self._calls or self._steps) and not self._ticking:
            self._ticking = True
            self.world.net.at(self.world.net.timeout, self.process, self.tick)

    def tick(self) -> None:
        """Give calls up that took too long."""
        self._ticking = False
        if self.client.stopped:
            return
        overdue = self.world.net.now - 0.9 * self.world.net.timeout
        actions: list[cl.Action] = []
        for call in [call for call, since in self._calls.items() if since < overdue]:
            del self._calls[call]
            actions += self.client.timed_out(*call)
        for key, stage in [step for step, since in self._steps.items() if since < overdue]:
            del self._steps[key, stage]
            actions += self.client.handle(cl.StepFailed(key, stage))
        self._act(actions)

    def _send(self, send: cl.Send) -> None:
        host, request = send
        own, owned = self._own, self.client.layout.owned(host)
        if type(request) is Pull and own is not None and not own.asks(request.key, host, owned):
            self._act(self.client.reply(host, request, Granted(request.term)))
            return
        self._calls[host, request] = self.world.net.now
        payload: Payload | Mark | None = None
        if host >= len(self.client.layout.copies):
            self._to_group(host, request)
            return
        if type(request) is Push:
            if own is not None:
                payload = own.owes(request, host, owned)
            else:
                payload = (owned, tuple(self._grads[request.key.n + i] for i in range(request.batches)), None)
        elif type(request) is Pull and isinstance(own, OwnRows):
            payload = own.since(host)
        given = (self.client.layout.copies[host], request, (self, request), payload)
        if self.world.scenario.push_delay and type(request) is Push:
            wait = self.world.scenario.push_delay * self.world.net.random()
            self.world.net.at(wait, self.process, self.world.to_copy, *given)
        else:
            self.world.to_copy(*given)

    def _to_group(self, host: int, request: Request) -> None:
        """The group is reached in the same process, through the member there, or through that of the lane's stage."""
        if self.world.scenario.spec.compute:
            self.world.to_home(self, host, request)
            return
        grads = (self._grads[request.key.n],) if type(request) is Push else None

        def answered(reply: Reply, values: Any) -> None:
            self.world.net.at(0, self.process, self.answered, host, request, reply, values)

        self.world.net.at(0, self.process, self.world.member(self.process).receive, request, answered, grads)

    def _work(self) -> float:
        """Return how long reading or computing a batch takes."""
        return self.process.pace * (0.3 + self.world.net.random())

    def _read(self, read: cl.Read) -> None:
        assert self.run.split is not None
        batches = self.world.scenario.splits[self.run.split]
        if read.n >= batches - READ_AHEAD and not self.client.mode.ordered:
            self.world.post(ev.SplitEnding(self.run.attempt))
        message = cl.BatchRead(read.n) if read.n < batches else cl.SplitEnded(batches)
        self.world.net.at(self._work(), self.process, self.receive, message)

    def _compute(self, compute: cl.Compute) -> None:
        key, stage = compute
        self._stepping.add(key.n)
        if self._own is not None:
            problem = self._own.fill(key)
            if self.run.attempt in self.world.run.roster.attempts:  # who was given up computes for nobody
                self._blame(problem)
        if stage:
            self._steps[key, stage] = self.world.net.now
            self.world.to_stage(stage, self, key)
        else:
            self._compute_here(key)

    def _compute_here(self, key: BatchKey) -> None:
        self.world.net.at(self._work(), self.process, self.computed, key, "")

    def _forget(self, forget: cl.Forget) -> None:
        self._pulled.pop(forget.key.n, None)

    def _free(self, free: cl.Free) -> None:
        if self._own is not None:
            self._own.free(free.key)
        for n in range(free.key.n, free.key.n + free.batches):
            self._pulled.pop(n, None)
            self._grads.pop(n, None)

    def _tell(self, tell: cl.Tell) -> None:
        if type(tell.event) is ev.SplitDone:
            self._leave(whole=True)
        if type(tell.event) is not ev.BatchesDone or self.world.net.random() < 0.3:
            self.world.post(tell.event)


_ACT = {
    cl.Send: "_send",
    cl.Read: "_read",
    cl.Compute: "_compute",
    cl.Forget: "_forget",
    cl.Free: "_free",
    cl.Tell: "_tell",
}
