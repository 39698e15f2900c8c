"""Play a run in simulated time and say how long it took, and who worked and who waited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from heterps.errors import PlanError, ProtocolError
from heterps.protocol import Phase, RunSpec
from heterps.protocol.words.modes import Mode
from heterps.simulator.scenario import Scenario
from heterps.simulator.timed.durations import Crew, Durations
from heterps.simulator.timed.world import TimedWorld

__all__ = ["Bar", "Played", "Script", "TooLongError", "play"]


class TooLongError(PlanError):
    """What is played takes longer than is played."""


@dataclass(frozen=True)
class Script:
    """What is played.

    Parameters
    ----------
    mode, lanes, group
        As in a run.
    splits
        Batches of each Split.
    passes
        How often they are gone through.
    cut_every_s
        Seconds between cuts; 0: none.
    slow
        How many times as long work takes: by the number of the worker that reads.
    depths
        Batches in flight of a worker that reads, by pool, where they are not those of the mode.
    """

    mode: Mode
    splits: tuple[int, ...]
    lanes: int = 1
    passes: int = 1
    group: bool = False
    cut_every_s: float = 0.0
    slow: Mapping[int, float] | None = None
    depths: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Bar:
    """Work of one worker on one batch."""

    stage: int
    unit: int
    batch: int
    backward: bool
    is_last: bool
    start_s: float
    stop_s: float


@dataclass(frozen=True)
class Played:
    """How a run went.

    Parameters
    ----------
    seconds, start_s
        Of all of it, and until the first batch was done.
    batches, rows
        That were done, each once.
    batches_per_second
        Over the middle half of the batches: what a long run comes to.
    tail_s
        From the moment when the first worker that reads had nothing more to do in the last pass to the end.
    cuts
        That were published.
    busy
        Part of the time from the first work on a batch to the end of the last for which the cores of a stage, of the
        shard hosts, or of a machine that they share, were at work.
    bytes_per_second
        By sender's and receiver's pool.
    bars
        Who worked on which batch when.
    """

    seconds: float
    start_s: float
    batches: int
    rows: int
    batches_per_second: float
    tail_s: float
    cuts: int
    busy: Mapping[str, float]
    bytes_per_second: Mapping[tuple[str, str], float]
    bars: tuple[Bar, ...]

    @property
    def rows_per_second(self) -> float:
        """Rows per second once everything runs."""
        return self.batches_per_second * self.rows / self.batches


def play(durations: Durations, script: Script) -> Played:
    """Play a run.

    Raises
    ------
    PlanError
        If a worker is to be slow that is not there.
    TooLongError
        If it takes days.
    ProtocolError
        If the run did not end, or a batch did not count exactly once: a bug.
    """
    if script.slow:
        durations = _slowed(durations, script.slow)
    world = TimedWorld(_scenario(durations, script), durations, script.depths)
    problem = world.play()
    if problem and world.timed.is_late:
        raise TooLongError(f"this would take {world.timed.now / 86400:.3g} days and more: play fewer batches")
    if problem or world.run.phase is not Phase.FINISHED:
        raise ProtocolError(f"a plan that was played did not end as it should: {problem or world.run.phase}")
    return _result(world, durations)


def _slowed(durations: Durations, slow: Mapping[int, float]) -> Durations:
    """One crew for each worker that reads, those named with another pace."""
    crews = [crew for crew in durations.stages[0].crews for _ in range(crew.workers)]
    for number in slow:
        if not 0 <= number < len(crews):
            raise PlanError(f"there is no worker {number} that reads: they are numbered from 0 to {len(crews) - 1}")
    each = tuple(Crew(crew.pool, 1, crew.pace * slow.get(i, 1.0)) for i, crew in enumerate(crews))
    first, *rest = durations.stages
    return replace(durations, stages=(replace(first, crews=each), *rest))


def _scenario(durations: Durations, script: Script) -> Scenario:
    hosts, stages = durations.hosts, durations.stages
    spec = RunSpec(
        mode=script.mode,
        passes=script.passes,
        lanes=script.lanes,
        hosts=hosts.count,
        shards=hosts.count,
        replicas=hosts.replicas,
        compute=len(stages) > 1,
        group=script.group,
    )
    return Scenario(
        seed=1,
        spec=spec,
        splits=script.splits,
        servers=max(hosts.count, hosts.replicas),
        io=stages[0].workers,
        compute=stages[1].workers if len(stages) > 1 else 0,
        slots=1,
        lazy=False,
        slow=0,
        loss=0.0,
        duplication=0.0,
        lateness=0.0,
        quiet=0,
        faults=(),
        cut_every=script.cut_every_s,
    )


def _result(world: TimedWorld, durations: Durations) -> Played:
    ends, bars = sorted(world.ends), _bars(world)
    first = len(ends) // 4
    last = min(max(first + 1, len(ends) * 3 // 4), len(ends) - 1)
    time = ends[last] - ends[first]
    span = max(ends[-1] - min((bar.start_s for bar in bars), default=ends[0]), 1e-12)
    return Played(
        seconds=world.net.now,
        start_s=ends[0],
        batches=len(ends),
        rows=len(ends) * durations.rows,
        batches_per_second=(last - first) / time if time > 0 else len(ends) / max(ends[-1], 1e-12),
        tail_s=_tail(world),
        cuts=len(world.disk.cuts) - 1,
        busy=_busy(world, bars, span),
        bytes_per_second={way: size / span for way, size in world.timed.wires.passed.items()},
        bars=bars,
    )


def _bars(world: TimedWorld) -> tuple[Bar, ...]:
    numbers: dict[object, int] = {}
    last = len(world.durations.stages) - 1
    return tuple(
        Bar(stage, unit, numbers.setdefault(key, len(numbers)), backward, stage == last, start, stop)
        for stage, unit, key, backward, start, stop in sorted(world.bars, key=lambda bar: bar[4])
    )


def _tail(world: TimedWorld) -> float:
    """Seconds for which not all workers that read had a batch, at the end."""
    ends: dict[int, float] = {}
    for stage, unit, _, _, _, stop in world.bars:
        if stage == 0:
            ends[unit] = max(ends.get(unit, 0.0), stop)
    return max(ends.values()) - min(ends.values()) if ends else 0.0


def _busy(world: TimedWorld, bars: tuple[Bar, ...], span: float) -> dict[str, float]:
    found = {}
    for number, stage in enumerate(world.durations.stages):
        worked = sum(bar.stop_s - bar.start_s for bar in bars if bar.stage == number)
        found[f"stage {number}"] = worked / span / stage.workers
    hosts = {world.timed.cores(copy.process): copy for copy in world.primaries()}
    alone = [cores for cores in hosts if cores not in world.timed.machines.values()]
    if alone:
        found["shard hosts"] = sum(cores.busy_s for cores in alone) / span / len(alone)
    for name, cores in world.timed.machines.items():
        found[f"cores of {name}"] = cores.busy_s / span / cores.count
    return {name: min(1.0, part) for name, part in found.items()}
