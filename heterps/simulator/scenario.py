"""A scenario: everything that decides a simulated run, drawn from a seed, small enough to read and to shrink."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from heterps.protocol import Async, Geo, Mode, RunSpec, Sync

__all__ = ["FAULTS", "Fault", "Scenario", "draw"]

FAULTS = (
    "crash server",
    "crash server twice",
    "freeze server",
    "lose copy",
    "crash io",
    "freeze io",
    "fail split",
    "slow split",
    "leave io",
    "join io",
    "crash compute",
    "lose stage",
    "restart driver",
    "disk full",
    "cut",
    "move",
)
"""Kinds of planned faults (cuts and moves are no faults, but what faults must not disturb)."""


class Fault(NamedTuple):
    """Something that happens when the world has processed ``at`` steps; ``pick`` chooses among what it can hit."""

    at: int
    kind: str
    pick: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world.

    Attributes
    ----------
    seed
        Of all delays and of the noise.
    spec
        What the run is to do.
    splits
        Number of batches of each Split.
    servers, io, compute
        Workers of each pool at the beginning.
    slots
        Splits at once per io worker.
    lazy
        Splits become known one by one.
    loss, duplication, lateness
        Share of messages that get lost, arrive twice, or arrive after their timeout.
    quiet
        Number of messages after which there is no noise.
    faults
        What happens when.
    """

    seed: int
    spec: RunSpec
    splits: tuple[int, ...]
    servers: int
    io: int
    compute: int
    slots: int
    lazy: bool
    loss: float
    duplication: float
    lateness: float
    quiet: int
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        spec = self.spec
        lines = [
            f"seed {self.seed}: {spec.mode}, {spec.passes} passes, lanes {spec.lanes}, hosts {spec.hosts}, "
            f"replicas {spec.replicas}, shards {spec.shards}, final cut {spec.final_cut}",
            f"batches per Split {self.splits}{' (known one by one)' if self.lazy else ''}; workers: {self.servers} server, "
            f"{self.io} io with {self.slots} slots, {self.compute} compute",
            f"noise in the first {self.quiet} messages: loss {self.loss:.2f}, duplication {self.duplication:.2f}, "
            f"lateness {self.lateness:.2f}",
        ]
        return "\n".join(lines + [f"at step {fault.at}: {fault.kind} (#{fault.pick})" for fault in self.faults])


def draw(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(seed)
    spec = _draw_spec(rng)
    noisy = rng.random() < 0.6
    return Scenario(
        seed=seed,
        spec=spec,
        splits=tuple(rng.choice((0, 1, 2, 2, 3, 5)) for _ in range(rng.randint(1, 4))),
        servers=max(rng.randint(1, spec.hosts + 1), spec.replicas),
        io=rng.randint(1, 3),
        compute=rng.randint(1, 2) if spec.compute else 0,
        slots=rng.choice((1, 1, 2)),
        lazy=rng.random() < 0.1,
        loss=rng.choice((0, 0.03, 0.1)) if noisy else 0,
        duplication=rng.choice((0, 0.03, 0.1)) if noisy else 0,
        lateness=rng.choice((0, 0.03, 0.1)) if noisy else 0,
        quiet=rng.choice((100, 300, 600)) if noisy else 0,
        faults=_draw_faults(rng, spec),
    )


def _draw_spec(rng: Random) -> RunSpec:
    mode: Mode = rng.choice((Sync(), Sync(), Async(1), Async(2), Async(3), Async(2, merge=2), Geo(k=2)))
    return RunSpec(
        mode=mode,
        passes=rng.choice((1, 1, 1, 2)),
        lanes=rng.randint(1, 3),
        hosts=rng.choice((1, 2, 2, 3)),
        shards=3,
        replicas=rng.choice((1, 2)),
        compute=rng.random() < 0.25,
        retries=1000,
        final_cut=rng.random() < 0.3,
    )


def _draw_faults(rng: Random, spec: RunSpec) -> tuple[Fault, ...]:
    kinds = [kind for kind in FAULTS if spec.compute or kind not in ("crash compute", "lose stage")]
    some = [
        Fault(rng.randint(5, 400), rng.choice(kinds), rng.randrange(60)) for _ in range(rng.choice((0, 1, 2, 2, 3, 4)))
    ]
    some += [Fault(rng.randint(5, 300), "cut", 0) for _ in range(rng.choice((0, 1, 1, 2)))]
    return tuple(sorted(some))
