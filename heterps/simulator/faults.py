"""The planned faults: each hits something that is there when its time comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heterps.protocol.words import events as ev
from heterps.simulator.network import TIMEOUT, Process
from heterps.simulator.scenario import Fault

if TYPE_CHECKING:
    from heterps.simulator.world import World

__all__ = ["fire", "let_go"]

DETECTION = 2 * TIMEOUT
"""After this silence the engine gives a worker up."""


def fire(world: World, fault: Fault) -> None:
    """Let a fault happen, and count it if there was something to hit."""
    if getattr(_Faults, fault.kind.replace(" ", "_"))(world, fault.pick):
        world.net.fired[fault.kind] += 1
        if world.net.trace is not None:
            world.net.trace.append(f"{world.net.now:8.2f} FAULT     {fault.kind}")


def _pick(world: World, role: str, pick: int) -> Process | None:
    able = [p for p in world.processes if p.role == role and p.alive and not p.frozen and not p.lost]
    return able[pick % len(able)] if able else None


def _give_up(world: World, process: Process) -> None:
    """The engine has noticed: the run hears of it, and a new process takes the place."""
    if not process.lost and (not process.alive or process.frozen):
        process.lost = True
        world.post(ev.WorkerLost(process.name, process.stay))
        world.net.at(2 + 10 * world.net.random(), None, _replace, world, process.role)


def let_go(world: World, process: Process) -> None:
    """A worker that was asked to leave ends."""
    if not process.lost:
        process.alive, process.lost = False, True
        world.net.at(2 + 10 * world.net.random(), None, _replace, world, process.role)


def _replace(world: World, role: str) -> None:
    world.join(role)


def _kill(world: World, process: Process | None) -> bool:
    if process is None:
        return False
    process.alive = False
    world.net.at(1 + 4 * world.net.random(), None, _give_up, world, process)
    return True


def _freeze(world: World, process: Process | None) -> bool:
    """Freeze it for a while: it may wake up before or after it was given up, and then be used again."""
    if process is None:
        return False
    process.frozen = True
    world.net.at(DETECTION, None, _give_up, world, process)
    world.net.at(DETECTION * (0.5 + 2 * world.net.random()), None, _wake, world, process)
    return True


def _wake(world: World, process: Process) -> None:
    world.net.thaw(process)
    if process.lost and process.alive and not process.name.endswith(("3", "6")):  # others are never seen again
        world.come_back(process)


class _Faults:
    """One function per kind of fault; each says whether it hit anything."""

    @staticmethod
    def crash_server(world: World, pick: int) -> bool:
        return _kill(world, _pick(world, "server", pick))

    @staticmethod
    def crash_server_twice(world: World, pick: int) -> bool:
        """And another one while the run recovers."""
        later = 1 + 12 * world.net.random()
        world.net.at(later, None, lambda: _kill(world, _pick(world, "server", pick // 7)))
        return _kill(world, _pick(world, "server", pick))

    @staticmethod
    def freeze_server(world: World, pick: int) -> bool:
        return _freeze(world, _pick(world, "server", pick))

    @staticmethod
    def lose_copy(world: World, pick: int) -> bool:
        """An actor is given up though its worker lives: it goes on as a zombie."""
        copies = sorted(world.run.fleet.places)
        if copies:
            world.post(ev.CopyLost(copies[pick % len(copies)]))
        return bool(copies)

    @staticmethod
    def part_servers(world: World, pick: int) -> bool:
        """Servers do not hear each other for a while, and before that is over one of them dies or freezes."""
        world.parted_until = world.net.now + 1.5 * DETECTION
        victim = _pick(world, "server", pick)
        act = _freeze if pick % 3 == 0 else _kill
        world.net.at(1.4 * DETECTION * world.net.random(), None, act, world, victim)
        return victim is not None and world.scenario.spec.replicas > 1

    @staticmethod
    def crash_io(world: World, pick: int) -> bool:
        return _kill(world, _pick(world, "io", pick))

    @staticmethod
    def freeze_io(world: World, pick: int) -> bool:
        return _freeze(world, _pick(world, "io", pick))

    @staticmethod
    def fail_split(world: World, pick: int) -> bool:
        """The engine believes that a task failed; what it sent may still arrive, and it may even go on."""
        attempts = sorted(world.run.roster.attempts)
        if attempts:
            world.post(ev.SplitFailed(attempts[pick % len(attempts)], "simulated"))
        return bool(attempts)

    @staticmethod
    def slow_split(world: World, pick: int) -> bool:
        attempts = sorted(world.run.roster.attempts)
        if attempts:
            world.post(ev.SplitSlow(attempts[pick % len(attempts)]))
        return bool(attempts)

    @staticmethod
    def slow_io(world: World, pick: int) -> bool:
        """A worker falls behind, until it does not: what it runs is run a second time, or what does not stop anew."""
        process = _pick(world, "io", pick)
        worker = None if process is None else world.run.roster.workers.get(process.name)
        if process is None or worker is None or process.pace > 8:  # slower still, and nobody could wait for it
            return False
        process.pace *= 8
        world.looks += 2
        world.look(ev.WorkerPaced(process.name, True, world.looks - 1), world.life)
        for wait in (0.0, 3.0):
            for attempt in worker.attempts:
                world.net.at(wait, None, world.post, ev.SplitSlow(attempt))
        world.net.at(10 + 60 * world.net.random(), None, _is_fast, world, process, world.looks, world.life)
        return True

    @staticmethod
    def leave_io(world: World, pick: int) -> bool:
        process = _pick(world, "io", pick)
        if process is not None:
            world.post(ev.WorkerLeaving(process.name))
            world.net.at(40, None, _kill, world, process)
        return process is not None

    @staticmethod
    def leave_server(world: World, pick: int) -> bool:
        """A server is asked to leave; it goes when the run lets it, and another one comes."""
        process = _pick(world, "server", pick)
        if process is not None:
            world.post(ev.WorkerLeaving(process.name))
        return process is not None

    @staticmethod
    def hold_io(world: World, pick: int) -> bool:
        """A worker can begin nothing for a while; what it was given and has not begun is given to others."""
        process = _pick(world, "io", pick)
        if process is not None:
            world.looks += 2
            world.look(ev.WorkerHeld(process.name, world.looks - 1), world.life)
            freed = ev.WorkerFreed(process.name, world.looks)
            world.net.at(5 + 40 * world.net.random(), None, world.look, freed, world.life)
        return process is not None

    @staticmethod
    def join_io(world: World, pick: int) -> bool:
        world.join("io")
        return True

    @staticmethod
    def crash_compute(world: World, pick: int) -> bool:
        return _kill(world, _pick(world, "compute", pick))

    @staticmethod
    def freeze_compute(world: World, pick: int) -> bool:
        return _freeze(world, _pick(world, "compute", pick))

    @staticmethod
    def join_compute(world: World, pick: int) -> bool:
        world.join("compute")
        return True

    @staticmethod
    def lose_stage(world: World, pick: int) -> bool:
        process = _pick(world, "compute", pick)
        if process is not None:
            world.post(ev.StageLost(process.name))
        return process is not None

    @staticmethod
    def restart_driver(world: World, pick: int) -> bool:
        world.restart()
        return True

    @staticmethod
    def lose_driver(world: World, pick: int) -> bool:
        return world.lose_driver()

    @staticmethod
    def disk_full(world: World, pick: int) -> bool:
        world.disk.full = True
        world.net.at(30, None, _make_room, world)
        return True

    @staticmethod
    def break_cut(world: World, pick: int) -> bool:
        """The newest cut on disk becomes unreadable, and a server is lost that would have returned to it."""
        hit = world.disk.break_newest()
        return hit and (pick % 3 == 0 or _kill(world, _pick(world, "server", pick)))

    @staticmethod
    def cut(world: World, pick: int) -> bool:
        world.post(ev.CutAsked())
        return True

    @staticmethod
    def rest(world: World, pick: int) -> bool:
        world.rests += 1
        world.post(ev.RestAsked(world.rests))
        return True

    @staticmethod
    def move(world: World, pick: int) -> bool:
        spec = world.scenario.spec
        world.post(ev.MoveAsked((pick % spec.shards,), pick // spec.shards % spec.hosts))
        return spec.hosts > 1


def _is_fast(world: World, process: Process, look: int, life: int) -> None:
    process.pace /= 8
    world.look(ev.WorkerPaced(process.name, False, look), life)


def _make_room(world: World) -> None:
    world.disk.full = False
