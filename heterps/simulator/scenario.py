"""A scenario: everything that decides a simulated run, drawn from a seed, small enough to read and to shrink."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from heterps.protocol import Async, Cached, Geo, Mixed, MixedSync, Mode, RunSpec, Sync

__all__ = ["FAULTS", "UNDRIVEN", "Fault", "Scenario", "draw"]

FAULTS = (
    "crash server",
    "crash server twice",
    "freeze server",
    "lose copy",
    "part servers",
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
    "rest",
    "move",
    "hold io",
    "break cut",
    "leave server",
    "slow io",
    "lose driver",
    "freeze compute",
    "join compute",
)
"""Kinds of planned faults (cuts, rests and moves are no faults, but what faults must not disturb)."""

UNDRIVEN = ("move",)
"""Kinds that no engine can be met with: whole hosts go over, not single shards."""


TRIGGERS = (
    "BackupReady",
    "CutMarked",
    "CutWritten",
    "CutPublished",
    "HostReady",
    "SplitPaused",
    "SplitEnding",
    "SplitDone",
    "ShardsCopied",
    "WorkerLost",
)
"""Events after which a fault is most likely to find the run between two states."""


_OF_GROUP = ("MemberFormed", "MemberReady", "WrittenBack", "LaneWaits")  # such events, in runs that have a group


class Fault(NamedTuple):
    """Something that happens when the world has made ``at`` steps, or right after the ``at``-th event of a kind.

    ``pick`` chooses among what it can hit.
    """

    at: int
    kind: str
    pick: int
    after: str = ""

    def __str__(self) -> str:
        when = f"after {self.after} number {self.at}" if self.after else f"at step {self.at}"
        return f"{when}: {self.kind} (#{self.pick})"


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
    held
        Each Split is held by one of the io workers of the beginning.
    loss, duplication, lateness
        Share of messages that get lost, arrive twice, or arrive after their timeout.
    slow
        Every io worker whose number this divides is several times slower (0: none).
    quiet
        Number of messages after which there is no noise.
    faults
        What happens when.
    cut_every
        Time between cuts that a clock asks for (0: none does).
    push_delay
        How long a push waits at its worker at the most, while other requests overtake it.
    """

    seed: int
    spec: RunSpec
    splits: tuple[int, ...]
    servers: int
    io: int
    compute: int
    slots: int
    lazy: bool
    slow: int
    loss: float
    duplication: float
    lateness: float
    quiet: int
    faults: tuple[Fault, ...]
    cut_every: float = 0.0
    held: bool = False
    push_delay: float = 0.0

    def __str__(self) -> str:
        spec = self.spec
        lines = [
            f"seed {self.seed}: {spec.mode}, {spec.passes} passes, lanes {spec.lanes}, hosts {spec.hosts}, "
            f"of which {spec.stage_hosts} on compute workers, replicas {spec.replicas}, shards {spec.shards}, "
            f"final cut {spec.final_cut}" + (", dense parameters all-reduced" if spec.group else ""),
            f"batches per Split {self.splits}{' (known one by one)' if self.lazy else ''}"
            + (" (held by io workers)" if self.held else ""),
            f"workers: {self.servers} server, {self.io} io with {self.slots} slots, {self.compute} compute"
            + (f"; io workers divisible by {self.slow} are slow" if self.slow else ""),
            f"noise in the first {self.quiet} messages: loss {self.loss:.2f}, duplication {self.duplication:.2f}, "
            f"lateness {self.lateness:.2f}",
            *([f"a cut is asked for every {self.cut_every}"] if self.cut_every else []),
            *([f"pushes wait up to {self.push_delay}"] if self.push_delay else []),
        ]
        return "\n".join(lines + [str(fault) for fault in self.faults])


class Theme(NamedTuple):
    """What a seed concentrates on: rare sequences are found by drawing much of one kind, not a little of everything."""

    replicas: tuple[int, ...]
    hosts: tuple[int, ...]
    kinds: tuple[str, ...]
    faults: tuple[int, ...]
    cuts: tuple[int, ...]
    noise: tuple[float, ...]
    batches: tuple[int, ...] = (0, 1, 2, 2, 3, 4)


_LOSE_HOSTS = ("crash server", "crash server twice", "freeze server", "lose copy")
_LOSE_COPIES = ("part servers", "part servers", "lose copy", "crash server twice", "freeze server")
_LOSE_IO = ("crash io", "freeze io", "fail split", "slow split", "leave io", "join io")

_LOSE_COMPUTE = ("crash compute", "lose stage")

THEMES = (
    Theme((1, 2), (1, 2, 2, 3), FAULTS[:-7], (1, 2, 3, 4), (0, 1, 1, 2), (0, 0.03, 0.1)),
    Theme((2,), (1, 1, 2), _LOSE_COPIES, (2, 3, 4), (0, 1, 2), (0, 0.05, 0.1), (3, 4, 6)),
    Theme((1,), (2, 2, 3), (*_LOSE_HOSTS, "freeze io", "rest"), (2, 3), (1, 2, 3), (0, 0.05, 0.2)),
    Theme((1,), (2, 2, 3), (*_LOSE_IO, "rest", "rest"), (1, 2, 3), (1, 2, 3), (0, 0.05, 0.2)),
    Theme((1, 2), (2, 2, 3), ("move", "move", *_LOSE_HOSTS, *_LOSE_IO), (2, 3), (0, 1), (0, 0.05)),
)
"""Anything; replicas; returning to cuts; cuts while io workers die; hand-over."""


def draw(seed: int, everything: bool = False) -> Scenario:
    """Return the scenario of a seed: a world that an engine can meet, or everything that the protocol knows of."""
    drawn = _draw_all(seed)
    if everything:
        return drawn
    faults = tuple(fault for fault in drawn.faults if fault.kind not in UNDRIVEN)
    return replace(drawn, faults=faults, lazy=False, slots=1)  # engines supply Splits at once and give workers one


def _draw_all(seed: int) -> Scenario:
    rng = Random(seed)
    theme = rng.choice(THEMES)
    spec = _with_own_tables(seed, _with_cache(seed, _with_holder(seed, _draw_spec(rng, theme))))
    spec = replace(spec, group=spec.mode.ordered and not spec.stage_hosts and _draw_group(seed, spec))
    noisy = rng.random() < 0.7
    drawn = Scenario(
        seed=seed,
        spec=spec,
        splits=tuple(rng.choice(theme.batches) for _ in range(rng.randint(1, 3))),
        servers=rng.randint(max(1, spec.replicas), spec.hosts + 1),
        io=rng.randint(1, 3),
        compute=rng.randint(1, 2) if spec.compute else 0,
        slots=rng.choice((1, 1, 2)),
        lazy=rng.random() < 0.1,
        slow=rng.choice((0, 0, 2, 3)),
        loss=rng.choice(theme.noise) if noisy else 0,
        duplication=rng.choice(theme.noise) if noisy else 0,
        lateness=rng.choice(theme.noise) if noisy else 0,
        quiet=rng.choice((100, 200, 400)) if noisy else 0,
        faults=tuple(sorted((*_draw_faults(rng, theme, spec), *_apart(seed, spec)))),
        cut_every=rng.choice((0.0, 0.0, 0.0, 1.0, 5.0, 20.0)),
        held=Random(f"held {seed}").random() < 0.3,  # drawn apart: other draws of a seed stay as they were
        push_delay=_draw_push_delay(seed, spec.mode),
    )
    return _noisier(drawn) if drawn.spec.group else drawn


def _apart(seed: int, spec: RunSpec) -> list[Fault]:
    """Draw further faults, each kind from numbers of its own: other draws of a seed stay as they were."""
    more = [*_draw_rests(seed, spec), *_draw_leaves(seed), *_draw_slow(seed), *_draw_drivers(seed)]
    return [*_draw_holds(seed), *_draw_losses(seed, spec), *_draw_breaks(seed), *more]


def _draw_push_delay(seed: int, mode: Mode) -> float:
    """Let pushes be overtaken where engines send them apart from pulls, in some worlds."""
    return Random(f"pushes of {seed}").choice((0.0, 0.0, 3.0, 6.0)) if mode.any_order else 0.0


def _noisier(scenario: Scenario) -> Scenario:
    """Disturb an all-reduce group more: between its members there are many words to be lost."""
    rng = Random(f"noise of {scenario.seed}")
    loss, late = rng.choice((0, 0.05, 0.2)), rng.choice((0, 0.1, 0.2))
    return replace(scenario, loss=loss, lateness=late, quiet=rng.choice((0, 400, 800)))


def _draw_spec(rng: Random, theme: Theme) -> RunSpec:
    mode: Mode = rng.choice((Sync(), Sync(), Sync(), Async(1), Async(2), Async(3), Async(2, merge=2), Geo(k=2)))
    return RunSpec(
        mode=mode,
        passes=rng.choice((1, 1, 1, 2)),
        lanes=rng.randint(1, 3),
        hosts=rng.choice(theme.hosts),
        shards=3,
        replicas=rng.choice(theme.replicas),
        compute=rng.random() < 0.2 and not mode.has_copy,  # a copy is trained where the data is read
        retries=1000,
        final_cut=rng.random() < 0.2,
    )


def _with_holder(seed: int, spec: RunSpec) -> RunSpec:
    """Put a host on a compute worker, in half of the runs that have such workers."""
    if not spec.compute or Random(f"holder of {seed}").random() < 0.5:
        return spec
    return replace(spec, hosts=spec.hosts + 1, stage_hosts=1)


def _with_cache(seed: int, spec: RunSpec) -> RunSpec:
    """Let workers keep rows in some of the runs without order, drawn apart: other draws of a seed stay as they were."""
    rng = Random(f"cache of {seed}")
    if not isinstance(spec.mode, Async) or spec.stage_hosts or rng.random() > 0.25:
        return spec
    return replace(spec, mode=Cached(rng.choice((0, 1, 2, 3, 3, 5))))


def _with_own_tables(seed: int, spec: RunSpec) -> RunSpec:
    """Let workers train some shards themselves in others of these runs, and in some with order, drawn apart."""
    rng = Random(f"own tables of {seed}")
    share = {Async: 0.2, Sync: 0.08}.get(type(spec.mode), 0.0)
    if spec.compute or rng.random() > share:
        return spec
    k = rng.choice((2, 3))
    return replace(spec, mode=Mixed(k, spec.mode.depth) if isinstance(spec.mode, Async) else MixedSync(k))


def _draw_faults(rng: Random, theme: Theme, spec: RunSpec) -> tuple[Fault, ...]:
    """Draw moments over the whole run, but often close together: a fault is dangerous while another is dealt with."""
    kinds = [kind for kind in theme.kinds if kind not in _LOSE_COMPUTE] + spec.compute * 2 * [*_LOSE_COMPUTE]
    drawn = [rng.choice(kinds) for _ in range(rng.choice(theme.faults))] + ["cut"] * rng.choice(theme.cuts)
    centre, width = rng.randint(10, 200), rng.choice((15, 40, 300))
    return tuple(sorted(_draw_fault(rng, kind, centre, width) for kind in drawn))


def _draw_holds(seed: int) -> list[Fault]:
    """Hold io workers in some runs, beside what else happens in them."""
    rng = Random(f"holds of {seed}")
    return [_draw_fault(rng, "hold io", rng.randint(10, 200), 40) for _ in range(rng.choice((0, 0, 0, 0, 1, 2)))]


def _draw_rests(seed: int, spec: RunSpec) -> list[Fault]:
    """Let some runs with backups rest, and lose a server soon after: a backup must have what was changed meanwhile."""
    rng = Random(f"rests of {seed}")
    if spec.replicas < 2 or rng.random() < 0.7:
        return []
    at = rng.randint(10, 200)
    return [Fault(at, "rest", 0), Fault(at + rng.randint(10, 80), "crash server", rng.randrange(60))]


def _draw_leaves(seed: int) -> list[Fault]:
    """Ask servers to leave in some runs, some while others are lost."""
    rng = Random(f"leaves of {seed}")
    count = rng.choice((0, 0, 0, 0, 1, 2))
    return [_draw_fault(rng, "leave server", rng.randint(10, 200), 40) for _ in range(count)]


def _draw_slow(seed: int) -> list[Fault]:
    """Have io workers fall behind in some runs, some of them while a cut is drained for or another one is lost."""
    rng = Random(f"slow ones of {seed}")
    count = rng.choice((0, 0, 0, 0, 1, 2, 3))
    drawn = [_draw_fault(rng, "slow io", rng.randint(10, 150), 60) for _ in range(count)]
    return [*drawn, Fault(drawn[0].at + rng.randint(1, 8), "cut", 0)] if drawn and not drawn[0].after else drawn


def _draw_drivers(seed: int) -> list[Fault]:
    """Lose the driver in some runs, with a cut and another loss soon after: what it left is not whole everywhere."""
    rng = Random(f"drivers of {seed}")
    count = rng.choice((0, 0, 0, 0, 0, 1, 1, 2))
    drawn = [_draw_fault(rng, "lose driver", rng.randint(10, 200), 60) for _ in range(count)]
    at = next((fault.at for fault in drawn if not fault.after), 0)
    later = rng.choice((2, 60))  # while tables are adopted, or after
    soon = [
        Fault(at + rng.randint(1, 12), "cut", 0),
        Fault(at + rng.randint(0, later), "crash server", rng.randrange(60)),
    ]
    return [*drawn, *rng.choice(([], soon[:1], soon))] if at else drawn


def _draw_breaks(seed: int) -> list[Fault]:
    """Break cuts in some runs, soon after they were published and while hosts load them."""
    rng = Random(f"breaks of {seed}")
    after = rng.choice(("CutPublished", "CutPublished", "WorkerLost"))
    return [Fault(rng.randint(1, 3), "break cut", rng.randrange(60), after)] if rng.random() < 0.2 else []


def _draw_group(seed: int, spec: RunSpec) -> bool:
    """Say whether a Sync run all-reduces its dense parameters; often where it also has tables that travel by Geo, or
    stage workers that do it.
    """
    return Random(f"group of {seed}").random() < (0.5 if spec.mode.has_ranges or spec.compute else 0.08)


def _draw_losses(seed: int, spec: RunSpec) -> list[Fault]:
    """Lose or add members of an all-reduce group while it forms, waits for lanes, or gives its parameters to the
    hosts.
    """
    rng = Random(f"losses of {seed}")
    count = rng.choice((0, 0, 1, 2, 3)) if spec.group else 0
    kinds: tuple[str, ...] = ("crash io", "crash io", "freeze io", "join io")
    if spec.compute:
        kinds = ("crash compute", "crash compute", "freeze compute", "join compute", "lose stage", "crash io")
    moments = (*_OF_GROUP, "SplitPaused", "WorkerLost")
    return [
        Fault(rng.randint(1, 6), rng.choice(kinds), rng.randrange(60), rng.choice(moments))
        if rng.random() < 0.6
        else Fault(rng.randint(10, 250), rng.choice(kinds), rng.randrange(60))
        for _ in range(count)
    ]


def _draw_fault(rng: Random, kind: str, centre: int, width: int) -> Fault:
    if kind == "cut" and rng.random() < 0.3:
        return Fault(rng.randint(1, 2), kind, 0, "CutPublished")
    if rng.random() < 0.4:
        return Fault(rng.randint(1, 4), kind, rng.randrange(60), rng.choice(TRIGGERS))
    return Fault(max(5, centre + rng.randint(-width, width)), kind, rng.randrange(60))
