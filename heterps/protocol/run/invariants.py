"""What must hold between events, as a list of small named predicates; and what a run that stands still waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from heterps.protocol.run.spec import Phase

if TYPE_CHECKING:
    from heterps.protocol.run.state import RunState

__all__ = ["INVARIANTS", "stands", "violations", "waits"]


def attempts_have_workers(run: RunState) -> bool:
    """Every attempt is on a worker that is there, and that worker knows it."""
    workers = run.roster.workers
    return all(
        a.worker in workers and workers[a.worker].attempts.get(a.number) is a for a in run.roster.attempts.values()
    )


def slots_are_kept(run: RunState) -> bool:
    """No worker has more attempts than slots, but for those that are ending."""
    return all(worker.taken <= worker.slots for worker in run.roster.workers.values())


def one_attempt_per_split(run: RunState) -> bool:
    """A Split, in Sync a lane, has at most two attempts; one where workers have rows of their own."""
    streams = Counter(run.roster.stream(a) for a in run.roster.attempts.values())
    return all(count <= 2 - run.spec.mode.has_copy for count in streams.values())


def attempts_are_of_this_pass(run: RunState) -> bool:
    """Passes do not overlap."""
    return all(a.pass_ == run.book.pass_ for a in run.roster.attempts.values())


def no_attempts_while_restoring(run: RunState) -> bool:
    """Nothing runs while hosts return to a cut."""
    return run.phase is not Phase.RESTORING or not run.roster.attempts


def drained_means_paused(run: RunState) -> bool:
    """While a cut is marked, rows move or the run rests, nothing is in flight."""
    drained = run.phase in (Phase.MARKING, Phase.MOVING, Phase.RESTING)
    return not drained or all(a.paused for a in run.roster.attempts.values())


def copies_are_apart(run: RunState) -> bool:
    """Primary and backup of a host are on different workers."""
    places = run.fleet.places
    pairs = [(h.primary, h.backup) for h in run.fleet.hosts if h.primary is not None and h.backup is not None]
    return all(places[primary][1] != places[backup][1] for primary, backup in pairs)


def copies_have_one_host(run: RunState) -> bool:
    """Every live copy is primary or backup of its host, on a worker that is there."""
    fleet, hosts = run.fleet, run.fleet.hosts
    return all(
        copy in (hosts[host].primary, hosts[host].backup)
        and worker in (fleet.stage_workers if host in fleet.holders else fleet.workers)
        for copy, (host, worker) in fleet.places.items()
    )


def ready_hosts_have_primaries(run: RunState) -> bool:
    """A host that is ready has a copy that answers; a backup that is ready exists."""
    return all(
        (not h.ready or h.primary is not None) and (not h.backup_ready or h.backup is not None) for h in run.fleet.hosts
    )


def finished_means_done(run: RunState) -> bool:
    """A finished run has nothing left to do."""
    done = run.book.over and run.book.pass_ == run.spec.passes - 1 and not run.roster.attempts
    return run.phase is not Phase.FINISHED or done


def what_is_kept_agrees(run: RunState) -> bool:
    """What is kept up to date from event to event is what a look at everything would find."""
    return run.roster.agrees() and run.fleet.agrees() and run.book.agrees() and run.layout() == run._lay_out()


def nobody_could_go(run: RunState) -> bool:
    """A worker that is to leave and has nothing of the run any more was let go."""
    return not any(map(run._can_go, run._to_go))


INVARIANTS: tuple[Callable[[RunState], bool], ...] = (
    attempts_have_workers,
    slots_are_kept,
    one_attempt_per_split,
    attempts_are_of_this_pass,
    no_attempts_while_restoring,
    drained_means_paused,
    copies_are_apart,
    copies_have_one_host,
    ready_hosts_have_primaries,
    finished_means_done,
    what_is_kept_agrees,
    nobody_could_go,
)


def violations(run: RunState) -> list[str]:
    """Return the invariants that do not hold, by name and meaning."""
    return [f"{rule.__name__}: {rule.__doc__}" for rule in INVARIANTS if not rule(run)]


def waits(run: RunState) -> tuple[str, ...]:
    """Return what is missing, in words."""
    return tuple(_waits(run)) if run.phase not in (Phase.FINISHED, Phase.ABORTED) else ()


def _waits(run: RunState) -> Iterator[str]:
    missing = {host.index in run.fleet.holders for host in run.fleet.hosts if host.primary is None}
    if False in missing and not run.fleet.workers:
        yield "a server worker for the shard hosts"
    if True in missing and not run.fleet.stage_workers:
        yield "a compute worker for the dense parameters"
    workers = run.roster.workers.values()
    if not any(worker.usable or (worker.attempts and not worker.leaving) for worker in workers):
        yield "an io worker to run Splits"
    if run.spec.compute and not run.layout().stages:
        yield "a compute worker with its stage actors"
    if not run.book.complete and not run.book.count:
        yield f"Splits of pass {run.book.pass_}"


def stands(run: RunState) -> tuple[str, ...]:
    """Return what is missing, and who is to do what: every attempt, host and part of a cut that is not done."""
    return tuple(_stands(run)) if run.phase not in (Phase.FINISHED, Phase.ABORTED) else ()


def _stands(run: RunState) -> Iterator[str]:
    yield from _waits(run)
    for attempt in run.roster.attempts.values():
        if not attempt.paused:
            split = "the end of its lane" if attempt.work.split is None else f"Split {attempt.work.split}"
            told = ", which was told to stop" if attempt.stopping else ""
            yield f"attempt {attempt.number} at {split} of pass {attempt.pass_} on worker {attempt.worker}{told}"
    for host in run.fleet.hosts:
        if host.primary is not None and not host.ready:
            yield f"shard host {host.index} on worker {run.fleet.places[host.primary][1]} to be ready"
    if run.group is not None and run.group.members and not run.group.ready:
        yield f"the all-reduce group of {', '.join(run.group.members)} to form"
    if run._cutting is not None:
        copies = run._cutting.unmarked or run._cutting.unwritten
        what = "mark" if run._cutting.unmarked else "write"
        hosts = sorted({run.fleet.places[copy][0] for copy in copies if copy in run.fleet.places})
        yield f"shard hosts {hosts} to {what} cut {run._cutting.cut.number}" if hosts else "a cut to be published"
