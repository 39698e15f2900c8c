"""What no plan can beat, as an integer program: the type of every Layer, whatever the order, and whole units.

A plan puts every Layer on a type. All stages of a type together need at least the units that their work takes as one
stage, and what crosses between types must be sent on one side and received on the other, whatever the stages: a tensor
whose source is on a type and one of whose readers is not leaves that type once. Gradients of parameters pass through
the type of the first Layer unless theirs is the same. So the least price over places of Layers, with whole units of
types, whole products and whole shard hosts, is no more than any plan's. Branches that are alike are one: some best
solution in fractions treats them alike, and fractions are allowed for them. So they are for all Layers where pools may
share a stage. Serial parts, calls, memory and links are left out.
"""

from __future__ import annotations

import numpy as np

from heterps.planner.solve.effort import Deadline, UndecidedError
from heterps.planner.solve.integer_program import IntegerProgram
from heterps.planner.solve.mincut import folded
from heterps.planner.solve.problem import Problem

__all__ = ["MOST_COLUMNS", "TypeProgram", "least_per_row", "most_within"]

MOST_COLUMNS = 4_000  # of places and crossings, beyond which HiGHS takes long
_SECONDS = 1.0  # for one throughput
_ROUNDING = 1e-7  # relative: HiGHS takes what is so close for enough
_CLOSE = 0.01  # relative distance from the plan at which a bound is good enough
_STEP = 1.01  # over throughputs at which the bound is not
_TURNS = 12


class TypeProgram:
    """The program of a problem, at any throughput."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._small, self._counts = folded(problem)

    @property
    def applies(self) -> bool:
        """Whether the program is small enough."""
        tensors = len({flow.tensor for flow in self._small.flows})
        return (3 * self._small.layers + 2 * tensors) * self._small.types <= MOST_COLUMNS

    def least_price(self, x: float, deadline: Deadline) -> float:
        """Lower bound on the price per hour at x rows a second or more; inf: no plan, 0: nothing is known in time."""
        program, hosts = IntegerProgram(), self._problem.shards.hosts(x)
        self._build(program, x, hosts)
        try:
            found = program.solve(max(0.05, min(_SECONDS, deadline.left)))
        except UndecidedError:
            return 0.0
        if found is None:
            return np.inf
        apart = self._problem.shards.price * hosts if self._problem.shards.type < 0 else 0.0
        return max(0.0, found.bound * (1 - _ROUNDING)) + apart

    def exceeds(self, budget: float, x: float, deadline: Deadline) -> bool:
        """Whether it is proved that x rows a second cost more than a price per hour, or more than there is."""
        price = self.least_price(x, deadline)
        return price > budget * (1 + 1e-6) or bool(np.isinf(price))

    def _build(self, program: IntegerProgram, x: float, hosts: int) -> None:
        small, types = self._small, range(self._small.types)
        whole = not self._problem.mixes.size
        place = [
            [program.binary() if whole and self._counts[v] == 1 else program.continuous(0.0, 1.0) for _ in types]
            for v in range(small.layers)
        ]
        for v, columns in enumerate(place):
            program.row([(c, 1.0) for c in columns], 1, 1)
            program.row([(c, 1.0) for c, ok in zip(columns, small.allowed[v], strict=True) if not ok], 0, 0)
        work = [[[] for _ in small.layer_parallel] for _ in types]  # type: list[list[list[tuple[int, float]]]]
        for t in types:
            for r, seconds in enumerate(small.layer_parallel[:, :, t]):
                work[t][r] += [(place[v][t], float(s) * x) for v, s in enumerate(seconds) if s]
        self._add_crossing(program, place, work, x)
        self._add_gradients(program, place, work, x)
        self._add_units(program, work, hosts)

    def _add_crossing(
        self, program: IntegerProgram, place: list[list[int]], work: list[list[list[tuple[int, float]]]], x: float
    ) -> None:
        """What leaves a type, and what comes to it."""
        small = self._small
        readers: dict[str, list[int]] = {}
        sizes = {}
        for flow in small.flows:
            readers.setdefault(flow.tensor, []).append(flow.target)
            sizes[flow.tensor] = (flow.source, flow.bytes, flow.back)
        for tensor, (source, forward, back) in sizes.items():
            for t in range(small.types):
                leaves, comes = program.continuous(), program.continuous()
                for reader in readers[tensor]:
                    ends = place[source][t], place[reader][t]
                    program.row([(leaves, 1.0), (ends[0], -1.0), (ends[1], 1.0)], 0, np.inf)
                    program.row([(comes, 1.0), (ends[0], 1.0), (ends[1], -1.0)], 0, np.inf)
                for r, (receive_s, send_s) in enumerate(zip(small.receive_s[:, t], small.send_s[:, t], strict=True)):
                    work[t][r].append((leaves, float(forward * send_s + back * receive_s) * x))
                    work[t][r].append((comes, float(forward * receive_s + back * send_s) * x))

    def _add_gradients(
        self, program: IntegerProgram, place: list[list[int]], work: list[list[list[tuple[int, float]]]], x: float
    ) -> None:
        """What the type of the first Layer, if there is one that all others need, passes on for the others."""
        small = self._small
        first = self._first
        if first is None:
            return
        for v in np.flatnonzero(small.gradients):
            for t in range(small.types):
                passed = program.continuous()
                program.row([(passed, 1.0), (place[first][t], -1.0), (place[v][t], 1.0)], 0, np.inf)
                for r, each in enumerate(small.receive_s[:, t] + small.send_s[:, t]):
                    work[t][r].append((passed, float(small.gradients[v] * each) * x))

    @property
    def _first(self) -> int | None:
        """The Layer that all others come after."""
        small = self._small
        reached, edges = {0}, sorted((flow.source, flow.target) for flow in small.flows)
        for a, b in edges:
            if a in reached:
                reached.add(b)
        return 0 if len(reached) == small.layers and self._counts[0] == 1 else None

    def _add_units(self, program: IntegerProgram, work: list[list[list[tuple[int, float]]]], hosts: int) -> None:
        """Units of each type within the caps, as parts of whole products: a single unit is one too."""
        p = self._problem
        products = [program.integer(price) for price in p.product_price]
        for t, resources in enumerate(work):
            here, each = (hosts if p.shards.type == t else 0), float(p.sold_in[t])
            units = program.continuous(0.0, float(p.cap[t]))
            program.row([(units, 1.0), (products[p.product[t]], -each)], -np.inf, 0.0)
            program.row([(products[p.product[t]], each)], -np.inf, float(p.cap[t]))
            for taken in resources:
                # A unit is not added for a rounding error.
                program.row([(units, 1.0), *((c, -seconds * (1 - 1e-9)) for c, seconds in taken)], here, np.inf)


def least_per_row(
    program: TypeProgram, low: float, high: float, value: float, floor: float, deadline: Deadline
) -> float:
    """Lower bound on the price per hour over rows per second from low to high, given a plan's and a lower bound.

    The least price never falls with the throughput: what it is at x, it is at least at all above x.
    """
    wanted, x, least = value * (1 - _CLOSE), low, value
    while x <= high and least > floor:
        if deadline.over:
            return floor
        price = program.least_price(x, deadline)
        reach = min(max(price / wanted, x * _STEP), high)
        least = min(least, price / reach)
        x = reach if reach < high else np.inf
    return max(floor, least)


def most_within(program: TypeProgram, value: float, most: float, budget: float, deadline: Deadline) -> float:
    """Upper bound on the rows per second within a price per hour, given a plan's and an upper bound."""
    low, high = value, most
    for turn in range(_TURNS):
        x = low * (1 + _CLOSE) if turn == 0 or np.isinf(high) else float(np.sqrt(low * high))
        if x >= high or deadline.over:
            break
        if program.exceeds(budget, x, deadline):
            high = x
        else:
            low = x
    return high
