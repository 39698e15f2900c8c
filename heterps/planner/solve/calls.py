"""Every batch calls every shard host: what further hosts add to the figures of a problem.

The number of hosts H(X) follows from the throughput X (:meth:`heterps.planner.solve.placement.Shards.hosts`) and never
falls with it; more hosts than that help nobody, and each costs whoever calls it. So the best plans at X are those of
the problem with the calls of H(X) hosts, in which nothing depends on X any more, and what they cost never falls with X:
stages have more to do with more hosts. A placement with H hosts sustains what it does with the calls of H. Bounds
over many throughputs count those of the fewest hosts that any of the plans has: which hold the tables, and carry what
is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from heterps.planner.solve.placement import Floats

if TYPE_CHECKING:
    from heterps.planner.solve.problem import Problem

__all__ = ["Calls", "calling"]

_BY_CALLS = ("serial", "parallel", "has_serial", "usage", "stage_figures", "work_figures")  # all else stays


@dataclass(frozen=True, eq=False)
class Calls:
    """What every further shard host adds to a row, since every batch calls every host.

    To the first Layer, which reads: ``serial`` and ``parallel`` seconds of compute, float[T], and ``usage`` of shared
    capacities, float[H, T]; ``fixed``, float[H]: what the host itself takes of these. The figures of the problem have
    those of ``counted`` hosts.
    """

    serial: Floats
    parallel: Floats
    usage: Floats
    fixed: Floats
    counted: int = 1


@lru_cache(maxsize=4)  # a search asks for few numbers of hosts in turn
def calling(problem: Problem, hosts: int) -> Problem:
    """The problem with the calls of so many shard hosts in its figures; what they do not change is not made again."""
    assert problem.calls is not None
    calls, more = problem.calls, hosts - problem.calls.counted
    serial, parallel, usage, fixed = (
        figures.copy()
        for figures in (problem.layer_serial, problem.layer_parallel, problem.layer_usage, problem.fixed_usage)
    )
    serial[0, 0] += more * calls.serial
    parallel[0, 0] += more * calls.parallel
    usage[: len(calls.usage), 0] += more * calls.usage
    fixed[: len(calls.fixed)] += more * calls.fixed
    called = replace(
        problem,
        layer_serial=serial,
        layer_parallel=parallel,
        layer_usage=usage,
        fixed_usage=fixed,
        calls=replace(calls, counted=hosts),
    )
    same = {name: known for name, known in vars(problem).items() if name not in _BY_CALLS}
    vars(called).update({name: known for name, known in same.items() if name not in vars(called)})
    return called
