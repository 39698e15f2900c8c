"""Many seeds: count what fired, and cut a failing one down to a history one can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from heterps.simulator.scenario import Scenario, draw
from heterps.simulator.world import Outcome, simulate

__all__ = ["Failure", "Hunt", "hunt", "shrink"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed that broke the promise, its shrunken scenario, and what happened in that."""

    seed: int
    problem: str
    shrunken: Scenario
    outcome: Outcome

    def __str__(self) -> str:
        history = "\n".join(self.outcome.trace[-120:])
        return f"seed {self.seed}: {self.problem}\nshrunken to\n{self.shrunken}\n{self.outcome.problem}\n{history}"


@dataclass(slots=True)
class Hunt:
    """What many seeds gave."""

    seeds: int = 0
    steps: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    failure: Failure | None = None


def hunt(seeds: Iterable[int], *, everything: bool = False, progress: Callable[[Hunt], None] | None = None) -> Hunt:
    """Play seeds until one fails; for ``everything`` see :func:`~heterps.simulator.scenario.draw`."""
    result = Hunt()
    for seed in seeds:
        scenario = draw(seed, everything)
        outcome = simulate(scenario)
        result.seeds += 1
        result.steps += outcome.steps
        result.fired.update(outcome.fired)
        result.met.update(outcome.met)
        result.modes[scenario.spec.mode.name] += 1
        if outcome.problem:
            small = shrink(scenario)
            result.failure = Failure(seed, outcome.problem, small, simulate(small, trace=True))
            return result
        if progress is not None:
            progress(result)
    return result


def shrink(scenario: Scenario, tries: int = 400) -> Scenario:
    """Return a smaller scenario that still fails: drop faults, noise and size one by one as long as that works."""
    while tries > 0:
        for candidate in _smaller(scenario):
            if candidate == scenario:
                continue
            tries -= 1
            if simulate(candidate).problem:
                scenario = candidate
                break
            if tries <= 0:
                break
        else:
            return scenario
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield simpler scenarios, the greatest simplifications first."""
    faults, spec, splits = scenario.faults, scenario.spec, scenario.splits
    if scenario.quiet:
        yield replace(scenario, quiet=0)
        yield replace(scenario, quiet=scenario.quiet // 2)
        yield replace(scenario, loss=0)
        yield replace(scenario, duplication=0)
        yield replace(scenario, lateness=0)
    for i in range(len(faults)):
        yield replace(scenario, faults=faults[:i] + faults[i + 1 :])
    for i in range(len(splits)):
        if len(splits) > 1:
            yield replace(scenario, splits=splits[:i] + splits[i + 1 :])
        if splits[i]:
            yield replace(scenario, splits=(*splits[:i], splits[i] - 1, *splits[i + 1 :]))
    for name in ("passes", "lanes", "hosts", "replicas"):
        least = 1 + spec.stage_hosts if name == "hosts" else 1
        fewer: dict[str, Any] = {name: max(least, getattr(spec, name) - 1)}
        yield replace(scenario, spec=replace(spec, **fewer))
    if spec.stage_hosts:
        yield replace(scenario, spec=replace(spec, hosts=spec.hosts - 1, stage_hosts=0))
    if scenario.io > 1:
        yield replace(scenario, io=scenario.io - 1)
    if scenario.push_delay:
        yield replace(scenario, push_delay=0.0)
    if scenario.held:
        yield replace(scenario, held=False)
    if scenario.lazy:
        yield replace(scenario, lazy=False)
