"""The shard hosts as the run sees them: copies, terms, who is primary, what to create where.

Hosts that something happened to are stirred: only these are looked at when copies are placed, so that an event that has
nothing to do with hosts costs the same however many there are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from heterps.protocol.run.ranking import Ranking
from heterps.protocol.words.instructions import Attach, CreateHost, Detach, Discard, Instruction, Own, Promote, Rewind
from heterps.protocol.words.layout import deal_shards

__all__ = ["Fleet", "FleetHost"]


@dataclass(slots=True)
class FleetHost:
    """One host: its term, the copy that answers, and its backup."""

    index: int
    term: int
    primary: int | None = None
    ready: bool = False
    backup: int | None = None
    backup_ready: bool = False


class Fleet:
    """All hosts.

    Terms only rise: a host gets a new one whenever another copy answers for it, or the same copy answers for other
    rows.
    """

    def __init__(
        self, hosts: int, shards: int, replicas: int, life: int, stage_hosts: int = 0, *, adopts: bool = False
    ) -> None:
        self.replicas = replicas
        self.adopts = adopts
        """Whether hosts begin with the tables of a driver before, as they are: all of them or none."""
        self.changes = 0
        """Grows with every change to hosts: to copies, terms, owners, who is ready."""
        self.holders = range(hosts - stage_hosts, hosts)
        """Hosts that are on compute workers; they have no backup."""
        self.stage_workers: dict[str, None] = {}
        """Compute workers that are there."""
        self.hosts = [FleetHost(index, life << 32) for index in range(hosts)]
        self.workers: dict[str, str] = {}
        """Server workers that are there, each with the machine it runs on (empty where nobody said)."""
        self.leaving: set[str] = set()
        """Of these, those that are to go: what they hold is handed over."""
        self._moving: tuple[int, str] | None = None  # a host, and the emptier worker that it is to be on
        self.held: dict[int, str] = {}
        """Of hosts whose tables a run before left: their worker."""
        self.places: dict[int, tuple[int, str]] = {}
        """Of every live copy: its host and worker."""
        self.vacated: set[str] = set()
        """Workers that have a copy less, for whoever waits for that to take out."""
        self._on: dict[str, dict[int, None]] = {}  # the copies on each worker
        self._copies = life << 32
        self.line = life << 32
        """Counts returns to a cut."""
        self._not_ready = set(range(hosts))
        self._stirred = set(range(hosts))  # hosts to be looked at
        self._uneven = True  # loads of workers may have changed
        self._still = False  # at the last look
        self._roomiest: Ranking[str] = Ranking()  # servers by copies, those that leave last
        self._backing: Ranking[str] = Ranking()  # the same, the last that came first: so backups come to lie evenly
        self._numbers: dict[str, int] = {}  # of servers, in the order in which they came
        self._joined = 0
        self.owners = deal_shards(shards, hosts - stage_hosts)

    # --- queries

    @property
    def ready(self) -> bool:
        """Every host has a primary that answers."""
        return not self._not_ready

    def host_of(self, copy: int) -> FleetHost | None:
        """Return the host of a live copy."""
        place = self.places.get(copy)
        return None if place is None else self.hosts[place[0]]

    @property
    def owners(self) -> tuple[int, ...]:
        """Of each shard, the host that has it."""
        return self._owners

    @owners.setter
    def owners(self, owners: tuple[int, ...]) -> None:
        self._owners = owners
        shards: dict[int, list[int]] = {}
        for shard, owner in enumerate(owners):
            shards.setdefault(owner, []).append(shard)
        self._owned = {host: tuple(each) for host, each in shards.items()}
        self._stir()

    def owned(self, host: int) -> tuple[int, ...]:
        """Return the shards of a host."""
        return self._owned.get(host, ())

    def primaries(self) -> list[int]:
        """Return the copies that answer, in host order."""
        return [host.primary for host in self.hosts if host.primary is not None]

    def on(self, worker: str) -> list[int]:
        """Return the copies on a worker."""
        return list(self._on.get(worker, ()))

    def is_holder(self, worker: str) -> bool:
        """Say whether a compute worker has a host that can be nowhere else."""
        return any(self.places[copy][0] in self.holders for copy in self.on(worker))

    # --- workers

    def join(self, worker: str, machine: str = "") -> None:
        """A server worker is there."""
        if worker not in self.workers:
            self._joined += 1
            self._numbers[worker] = self._joined
        self.workers[worker] = machine
        self._rank(worker)
        self._stir()

    def join_stage(self, worker: str) -> None:
        """A compute worker is there."""
        self.stage_workers[worker] = None
        self._stir()

    def lose_stage(self, worker: str) -> None:
        """A compute worker is not there any more."""
        if self.stage_workers.pop(worker, "") is None:
            self._stir()

    def hold(self, held: dict[int, str]) -> None:
        """A run before left the tables of hosts on these workers."""
        self.held |= {host: worker for host, worker in held.items() if self.hosts[host].primary is None}
        self._stir()

    def leave(self, worker: str) -> None:
        """A server worker is to go: it is given nothing any more."""
        if worker in self.workers:
            self.leaving.add(worker)
            self._rank(worker)
            self._stir()

    def gone(self, worker: str) -> None:
        """A server worker is not there any more."""
        if self.workers.pop(worker, None) is not None:
            self.leaving.discard(worker)
            self._roomiest.drop(worker)
            self._backing.drop(worker)
            del self._numbers[worker]
            self._stir()

    def _rank(self, worker: str) -> None:
        if worker in self.workers:
            rank, number = (worker in self.leaving, len(self._on.get(worker, ()))), self._numbers[worker]
            self._roomiest.put(worker, (*rank, number))
            self._backing.put(worker, (*rank, -number))

    def _stir(self, *hosts: int, loads: bool = True) -> None:
        """Something happened to hosts, by default to all of them."""
        self.changes += 1
        self._stirred.update(hosts or range(len(self.hosts)))
        self._uneven |= loads

    # --- changes

    def restore(self, cut: int) -> list[Instruction]:
        """Bring every host to the cut: live primaries rewind, missing ones are placed later; backups start anew."""
        out: list[Instruction] = []
        self._moving, self.adopts = None, False
        self.line += 1
        for host in self.hosts:
            out += self._drop_backup(host)
            self._set_ready(host, False)
            if host.primary is not None:
                host.term += 1
                out.append(Rewind(host.primary, host.term, cut, self.owned(host.index), self.line))
        self._stir()
        return out

    def _set_ready(self, host: FleetHost, ready: bool) -> None:
        host.ready = ready
        (self._not_ready.discard if ready else self._not_ready.add)(host.index)
        self._stir(host.index)

    @property
    def lacks_tables(self) -> bool:
        """Whether a host that was to be adopted is not there."""
        if not self.adopts or not self.workers:
            return False
        return any(self.held.get(host.index) not in self.workers for host in self.hosts if host.primary is None)

    def place(self, cut: int, *, still: bool = False) -> list[Instruction]:
        """Create the copies that are missing, as far as there are server workers for them.

        Hosts on workers that leave, or have two more than another, are handed over: a backup is filled where the host
        is to be, and promoted when it is ready. ``still``: not now, somebody counts on the copies that answer.
        """
        if self._still and not still:
            self._stir()
        self._still = still
        if not self._stirred:
            return []
        out: list[Instruction] = []
        self._balance()
        stirred, self._stirred = self._stirred, set()
        for index in sorted(
            stirred, key=lambda index: (index not in self.held, index)
        ):  # others go where there is room
            host = self.hosts[index]
            if host.primary is None:
                out += self._place_primary(host, cut)
            elif host.ready and index not in self.holders:
                out += self._tend(host, still)
        return out

    def _tend(self, host: FleetHost, still: bool) -> list[Instruction]:
        """Give a host the backup that it should have; hand it over to that where it should be elsewhere."""
        goal = self._goal(host)
        if host.backup is not None:
            there = self.places[host.backup][1]
            if there in self.leaving or (there != goal if goal else self.replicas == 1):
                return self._drop_backup(host)
            return self._hand_over(host) if goal and host.backup_ready and not still else []
        return self._place_backup(host, goal) if goal or self.replicas > 1 else []

    def _goal(self, host: FleetHost) -> str | None:
        """Return the worker that a host is to be handed over to."""
        assert host.primary is not None
        here = self.places[host.primary][1]
        if here in self.leaving:
            there = None if host.backup is None else self.places[host.backup][1]
            return there if there and there not in self.leaving else self._emptiest(away_from=here)
        return self._moving[1] if self._moving is not None and self._moving[0] == host.index else None

    def _balance(self) -> None:
        """Choose a host to be moved from the fullest worker to the emptiest, one at a time."""
        if not self._uneven:
            return
        self._uneven = False
        moving = self._moving
        if self._is_moving():
            return
        self._moving = self._unbalanced()
        self._stirred.update(index for index, _ in filter(None, (moving, self._moving)))

    def _unbalanced(self) -> tuple[int, str] | None:
        """Return a host of the fullest worker, and the emptiest one where that has two less."""
        if any(index not in self.holders for index in self._not_ready):
            return None
        able = [worker for worker in self.workers if worker not in self.leaving]
        if len(able) < 2:
            return None
        hosts = [host for host in self.hosts if host.index not in self.holders]
        on = {host.index: self.places[host.primary][1] for host in hosts if host.primary is not None}
        load = Counter(on.values())
        fullest, emptiest = max(able, key=lambda w: load[w]), min(able, key=lambda w: load[w])
        if load[fullest] - load[emptiest] < 2:
            return None
        return next((index, emptiest) for index, worker in on.items() if worker == fullest)

    def _is_moving(self) -> bool:
        """Say whether the host that was chosen last is still on its way; it may have been lost, or promoted there."""
        if self._moving is None:
            return False
        index, worker = self._moving
        able = worker in self.workers and worker not in self.leaving
        primary = self.hosts[index].primary
        return able and primary is not None and self.places[primary][1] != worker

    def _hand_over(self, host: FleetHost) -> list[Instruction]:
        """Let the backup take over from a primary that lives: what that still answers, the backup has."""
        assert host.primary is not None
        assert host.backup is not None
        before = host.primary
        self._forget(before)
        host.primary, host.backup, host.backup_ready = host.backup, None, False
        host.term += 1
        self._set_ready(host, False)
        if self._moving is not None and self._moving[0] == host.index:
            self._moving = None
        return [Promote(host.primary, host.term, self.owned(host.index)), Discard(before)]

    def _place_primary(self, host: FleetHost, cut: int) -> list[Instruction]:
        worker = self._where(host)
        if worker is None:
            return []
        host.term += 1
        host.primary = self._new_copy(host, worker)
        owned = self.owned(host.index)
        return [CreateHost(host.primary, host.index, worker, host.term, cut, owned, self.adopts, self.line)]

    def _where(self, host: FleetHost) -> str | None:
        """Return the worker for a new primary: where its tables are already, else where there is room."""
        if host.index in self.holders:
            return next(iter(self.stage_workers), None)
        held = self.held.pop(host.index, None)
        return held if held in self.workers else self._emptiest()

    def _place_backup(self, host: FleetHost, goal: str | None = None) -> list[Instruction]:
        assert host.primary is not None
        worker = goal or self._emptiest(away_from=self.places[host.primary][1])
        if worker is None:
            return []
        host.backup, host.backup_ready = self._new_copy(host, worker), False
        create = CreateHost(host.backup, host.index, worker, host.term, None, self.owned(host.index))
        return [create, Attach(host.primary, host.backup)]

    def _new_copy(self, host: FleetHost, worker: str) -> int:
        self._copies += 1
        self.places[self._copies] = (host.index, worker)
        self._on.setdefault(worker, {})[self._copies] = None
        self._rank(worker)
        self._stir(host.index)
        return self._copies

    def _forget(self, copy: int) -> None:
        """A copy is not there any more."""
        index, worker = self.places.pop(copy)
        del self._on[worker][copy]
        self.vacated.add(worker)
        self._rank(worker)
        self._stir(index)

    def _emptiest(self, away_from: str | None = None) -> str | None:
        """Return the worker with the fewest copies; away from one, on another machine where there is such a worker.

        One that leaves is good enough for a primary where there is no other, never for a backup.
        """
        if away_from is None:
            return self._roomiest.best()
        machine = self.workers.get(away_from)

        def other(worker: str) -> bool:
            return worker != away_from and worker not in self.leaving

        elsewhere = None
        if any(there != machine for there in self.workers.values()):
            elsewhere = self._backing.best(lambda worker: other(worker) and self.workers[worker] != machine)
        return elsewhere or self._backing.best(other)

    def renew_backups(self) -> list[Instruction]:
        """Drop all backups, to be placed and filled anew: the rows of primaries were changed behind their backs."""
        return [gone for host in self.hosts for gone in self._drop_backup(host)]

    @property
    def unprotected(self) -> int:
        """Hosts that have no ready backup, where there is to be one."""
        able = [host for host in self.hosts if host.index not in self.holders]
        return sum(not host.backup_ready for host in able) if self.replicas > 1 else 0

    @property
    def together(self) -> int:
        """Hosts whose primary and backup are on one machine: both go with it."""
        pairs = [(host.primary, host.backup) for host in self.hosts if host.primary and host.backup]
        return sum(self._machine(primary) == self._machine(backup) for primary, backup in pairs)

    def _machine(self, copy: int) -> str:
        return self.workers.get(self.places[copy][1], "")

    def copy_ready(self, copy: int, term: int) -> bool:
        """A copy answers under this term; False if that is out of date."""
        host = self.host_of(copy)
        if host is None or copy != host.primary or term != host.term or host.ready:
            return False
        self._set_ready(host, True)
        return True

    def backup_ready(self, copy: int, backup: int) -> None:
        """A backup has everything its primary answered."""
        host = self.host_of(copy)
        if host is not None and host.primary == copy and host.backup == backup:
            host.backup_ready = True
            self._stir(host.index, loads=False)

    def lose(self, copy: int) -> tuple[str, list[Instruction]]:
        """Take a copy out. Returns "stale", "backup", "promoted" or "gone", and what to do at once."""
        host = self.host_of(copy)
        if host is None:
            return "stale", []
        self._forget(copy)
        if copy == host.backup:
            host.backup, host.backup_ready = None, False
            return "backup", [] if host.primary is None else [Detach(host.primary, copy)]
        return self._lose_primary(host)

    def _lose_primary(self, host: FleetHost) -> tuple[str, list[Instruction]]:
        host.primary = None
        self._set_ready(host, False)
        if host.backup is None or not host.backup_ready:
            return "gone", self._drop_backup(host)
        host.primary, host.backup, host.backup_ready = host.backup, None, False
        host.term += 1
        return "promoted", [Promote(host.primary, host.term, self.owned(host.index))]

    def _drop_backup(self, host: FleetHost) -> list[Instruction]:
        if host.backup is None:
            return []
        backup, host.backup, host.backup_ready = host.backup, None, False
        self._forget(backup)
        gone: list[Instruction] = [Discard(backup)]
        return gone if host.primary is None else [Detach(host.primary, backup), *gone]

    def move(self, shards: tuple[int, ...], target: int) -> list[Instruction]:
        """Change the owners. Every host gets a new term, so that nothing routed by the old owners is taken."""
        owners = list(self.owners)
        for shard in shards:
            owners[shard] = target
        self.owners = tuple(owners)
        out: list[Instruction] = []
        for host in self.hosts:
            host.term += 1
            self._set_ready(host, False)
            assert host.primary is not None
            out.append(Own(host.primary, host.term, self.owned(host.index)))
        return out

    def agrees(self) -> bool:
        """Say whether what is kept up to date is what a look at all hosts and workers would find."""
        on: dict[str, list[int]] = {}
        for copy, (_, worker) in self.places.items():
            on.setdefault(worker, []).append(copy)
        ranks = {w: (w in self.leaving, len(on.get(w, ())), self._numbers[w]) for w in self.workers}
        return (
            self._not_ready == {host.index for host in self.hosts if not host.ready}
            and on == {worker: list(copies) for worker, copies in self._on.items() if copies}
            and ranks == self._roomiest.keys
        )
