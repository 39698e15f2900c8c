"""What an engine is asked to run: one value that travels to every worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from heterps.data import Arrays, BadBook, Batch, Dataset, Split
from heterps.data.core.persist import Persisted
from heterps.data.core.read_ahead import Ahead, OneAhead, Reader
from heterps.device.found import FoundDevices, found_devices
from heterps.errors import PlanError
from heterps.kernels.program.steps import Scope, scope_of
from heterps.metrics import Metric
from heterps.own_modules import sent_with_code
from heterps.planner.ways import ALLREDUCE, CACHE, GEO, Way
from heterps.protocol.run.spec import RunSpec
from heterps.protocol.words.layout import deal_shards, owned_by
from heterps.protocol.words.modes import Cached, Mixed, MixedSync, Mode
from heterps.runtime.batch.cache_place import cached_groups, caches_bytes, check_cache_on, check_cache_there
from heterps.runtime.batch.clipping import Clip
from heterps.runtime.batch.copy_checks import check_copy
from heterps.runtime.batch.device_memory import check_memory, fitting_batches, rows_bytes
from heterps.runtime.batch.devices import AUTO, ChosenDevice, DeviceWish, choose_device
from heterps.runtime.batch.flat_part import FlatPart
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.own_parts import OwnParts
from heterps.runtime.batch.stage_checks import check_stage_group
from heterps.stages.lowering import pull_name
from heterps.tables import N_SHARDS, DenseSpec, GroupSpec, cached_row_bytes
from heterps.tables.on_device.able import check_group
from heterps.tiny_runs import Needs

__all__ = ["PREDICTION", "Job"]

FLOAT32, FLOAT16 = "float32", "float16"

_OWN_PARTS = "own parts"  # in a pickled job
PREDICTION = "prediction"  # what the loss predicts, beside the ops a graph names


@dataclass(frozen=True)
class Job:
    """A model and how it is trained.

    Parameters
    ----------
    model
        Graph, rules, seed.
    batch_size
        Rows of a batch.
    mode
        Consistency of the run.
    hosts, lanes
        Shard hosts; lanes of the Sync mode.
    metrics
        Kept during training.
    memory_bytes
        What the tables of one shard host may take; None: as the limit of its worker says.
    stages
        Ops by stage, in order; one stage means that everything runs where the data is read.
    devices
        What stages are to compute on.
    holder
        Whether the last host is a stage holder: on a worker of the first compute stage, with all dense parameters and
        the tables with storage "gpu", on the device that the stage computes on.
    replicas
        Copies of each shard host.
    clip
        Bounds of gradients.
    rate
        Learning rates of all rules are multiplied by this; each run of a session has its own.
    local_rows
        Geo: rows of each table that a worker keeps from one range of batches to the next; None for all it has met.
    wire
        How values travel between workers and shard hosts of other processes: ``"float32"``, or ``"float16"`` for half
        the bytes.
    ways
        How each dense parameter and each table travels, by name; through its table where it is not named.
    cache_on
        Where rows of a cache are: in ``"memory"``, on the ``"device"`` that computes, or ``"auto"``: there if they can.
    depths
        Batches in flight of a worker that reads, by pool, where they are not those of the mode.
    """

    model: Model
    batch_size: int
    mode: Mode
    hosts: int = 1
    lanes: int = 1
    metrics: tuple[Metric, ...] = ()
    stages: tuple[tuple[str, ...], ...] = ()
    memory_bytes: int | None = None
    devices: DeviceWish = field(default_factory=DeviceWish)
    holder: bool = False
    replicas: int = 1
    local_rows: int | None = None
    ways: Mapping[str, Way] = field(default_factory=dict)
    cache_on: str = AUTO
    clip: Clip = field(default_factory=Clip)
    rate: float = 1.0
    wire: str = FLOAT32
    depths: Mapping[str, int] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel with all parts that are not of this package, whether a worker can import them or not."""
        return sent_with_code(self, vars(self) | {_OWN_PARTS: vars(self.own_parts)})

    def __setstate__(self, state: dict[str, Any]) -> None:
        OwnParts(**state.pop(_OWN_PARTS)).install()
        vars(self).update(state)

    @property
    def own_parts(self) -> OwnParts:
        """What it uses that no module of heterps registers."""
        return OwnParts.of(self.model, self.devices.wanted)

    def __post_init__(self) -> None:
        if self.local_rows is not None and self.local_rows < 1:
            raise PlanError(f"local_rows={self.local_rows}, but a worker must keep at least one row")
        self._check_own()
        if self.mode.adds:
            check_copy(self.model, self.mode, len(self.stages), self.own_groups or None)
        elif self.local_rows is not None:
            keeps = "keeps as many rows as cache_rows= says" if self.mode.has_copy else "keeps no rows on workers"
            raise PlanError(f"local_rows={self.local_rows}, but mode {self.mode.name!r} {keeps}")
        self._check_caches()
        self._check_wire()
        if self.clip and self.holder:
            raise PlanError(
                "gradients are clipped where a batch comes back to the worker that read it, and those of a stage that "
                "holds parameters never do: leave clip_norm and clip_value, or dense_on='stage' and storage='gpu', out"
            )
        if not self.fused:
            self._check_stages()
        if self.reduced:
            self._check_reduced()
        for group in self.model.groups:
            if group.name in self.on_gpu:
                check_group(group)

    def _check_wire(self) -> None:
        if self.wire not in (FLOAT32, FLOAT16):
            raise PlanError(f"wire={self.wire!r}, but values travel as {FLOAT32!r} or {FLOAT16!r}")
        exact = "promises the same bits wherever a lane runs" if self.mode.ordered else ""
        exact = (
            "keeps rows on workers, which would drift away from the hosts'"
            if self.mode.has_copy or self.own_groups
            else exact
        )
        if self.wire == FLOAT16 and exact:
            raise PlanError(
                f"wire={FLOAT16!r} rounds what travels, but mode {self.mode.name!r} {exact}: use mode 'async'"
            )

    @property
    def half_on_wire(self) -> bool:
        """Whether values travel as float16."""
        return self.wire == FLOAT16

    def _check_own(self) -> None:
        own = next((name for name, way in self.ways.items() if way.kind == GEO), None)
        if own is not None and not isinstance(self.mode, Mixed | MixedSync):
            cached = next((name for name, way in self.ways.items() if way.kind == CACHE), "")
            instead = f"leave the cache of {cached!r} out" if cached else "use mode 'async' or 'sync' (--mode async)"
            raise PlanError(
                f"table {own!r} travels by {str(self.ways[own])!r} while others do not, which goes with pushes of "
                f"single batches: {instead}, not {self.mode.name!r}"
            )

    @cached_property
    def own_groups(self) -> frozenset[str]:
        """Row groups that workers train themselves, beside others that hosts do."""
        ways = {group.name: self.ways.get(group.tables[0].name, Way()) for group in self.model.groups}
        return frozenset(name for name, way in ways.items() if way.kind == GEO)

    def bench_of(self, lane: int) -> int:
        """Return which of a process's benches a lane is trained on: its own, where each lane has rows of its own.

        Whoever runs how many of the lanes then makes no difference to what they are trained on.
        """
        return lane if self.mode.ordered and self.mode.has_copy else 0

    @property
    def needs(self) -> Needs:
        """What decides which loops are compiled for it."""
        tables = [table for group in self.model.groups for table in group.tables]
        kinds = {type(table.rule): table.rule for table in tables}
        dense = {type(spec.rule): spec.rule for spec in self.model.parameters}
        return Needs(self.model.lowered.graph, tuple(kinds.values()), tuple(dense.values()), self.metrics)

    def _check_caches(self) -> None:
        cached = next((name for name, way in self.ways.items() if way.kind == CACHE), None)
        if cached is not None and not isinstance(self.mode, Cached):
            raise PlanError(
                f"table {cached!r} has a cache, whose gradients are settled after some batches: use mode 'async' or "
                f"'cache:STALENESS' (--mode, --staleness), not {self.mode.name!r}"
            )
        check_cache_on(self)
        if isinstance(self.mode, Cached) and self.holder:
            raise PlanError(
                "mode 'cache' gathers gradients where data is read, but dense_on='stage' keeps dense ones with the "
                "stage; use dense_on='hosts', or leave the cache out"
            )

    def cached_rows(self, group: GroupSpec) -> int:
        """Return how many rows of a group a worker keeps beside those of batches under way."""
        way = self.ways.get(group.tables[0].name, Way())
        if way.kind != CACHE or way.number is None:
            return 0
        return max(1, way.number // cached_row_bytes(group)) if way.in_bytes else way.number

    def caches_on(self, device: ChosenDevice) -> frozenset[str]:
        """Row groups whose caches are in the memory of the device that the first stage computes on."""
        return frozenset(group.name for group in cached_groups(self, device))

    def _check_reduced(self) -> None:
        first = self.reduced[0].name
        if not self.mode.ordered:
            raise PlanError(
                f"{first!r} is all-reduced, which adds the lanes of a step in order: use mode 'sync' (--mode sync), "
                f"not {self.mode.name!r}, or send it by its table (--parameters '*=table')"
            )
        if self.stage_group:
            check_stage_group(self.model, self.stages, self.reduced)
        if self.stage_group and self.holder:
            raise PlanError(
                f"{first!r} is all-reduced between the workers of a stage, all of which hold it, but dense_on='stage' "
                "or storage='gpu' has one of them hold all dense parameters: leave one of the two out"
            )
        if self.stage_group and self.clip:
            raise PlanError(
                f"{first!r} is all-reduced between the workers of a stage, where its gradient stays, but gradients are "
                "clipped where a batch comes back to the worker that read it: leave clip_norm and clip_value out, or "
                "send it by its table (--parameters '*=table')"
            )

    def _check_stages(self) -> None:
        """Refuse stages through which a batch cannot go from first to last: it would wait for ever."""
        made: dict[str, int] = {}
        scopes = [self.scope(ops) for ops in self.stages]
        for i, step in ((i, step.name) for i, scope in enumerate(scopes) for step in scope.steps):
            if step in made:
                raise PlanError(f"op {step!r} runs in stage {made[step]} of the plan and again in stage {i}")
            made[step] = i
        for each in self.scope(tuple(op.name for op in self.model.lowered.graph)).steps:
            if each.name not in made:
                raise PlanError(f"no stage of the plan runs op {each.name!r}")
        for i, name in ((i, name) for i, scope in enumerate(scopes) for name in scope.feeds):
            if made.get(name, -1) > i:
                raise PlanError(
                    f"stage {i} of the plan reads {name!r}, which stage {made[name]} computes; a stage can read only "
                    "what those before it give"
                )

    def at_rate(self, rate: float) -> Job:
        """Return the same at another learning rate."""
        return self if rate == self.rate else replace(self, rate=rate)

    @cached_property
    def reduced(self) -> tuple[DenseSpec, ...]:
        """Dense parameters that are all-reduced, in the order of the flat vector."""
        return tuple(spec for spec in self.model.parameters if self._is_reduced(spec.name))

    @property
    def stage_group(self) -> bool:
        """Whether the workers of the first compute stage all-reduce; else those that read, where any do."""
        return bool(self.reduced) and not self.fused

    def _is_reduced(self, name: str) -> bool:
        return name in self.ways and self.ways[name].kind == ALLREDUCE

    def reduced_on(self, host: int) -> tuple[DenseSpec, ...]:
        """Those that a shard host keeps while nothing is trained."""
        first, last = self.dense_ranges[host]
        return tuple(spec for spec in self.model.parameters[first:last] if self._is_reduced(spec.name))

    @cached_property
    def parts(self) -> tuple[FlatPart, ...]:
        """By shard host, what it is pulled and pushed of the dense parameters; behind them, if any, what is reduced."""
        spans = {piece.name: piece.span for piece in self.model.layout}
        ranges = [self.model.parameters[first:last] for first, last in self.dense_ranges]
        pushed = [[spec for spec in held if not self._is_reduced(spec.name)] for held in ranges]
        return tuple(
            FlatPart(spans[spec.name] for spec in part) for part in (*pushed, *([self.reduced] if self.reduced else []))
        )

    @property
    def fused(self) -> bool:
        """Whether no activations cross between workers."""
        return len(self.stages) <= 1

    def device_here(self, stage: int) -> ChosenDevice:
        """Return what a stage computes on in this process; inference goes by the stage that reads."""
        return self.device_on(stage, found_devices())

    def device_on(self, stage: int, found: FoundDevices, workers: int | None = None) -> ChosenDevice:
        """Return what a stage computes on where such devices were found; refuse it where batches cannot fit.

        So many workers share the lanes of a mode that runs all of them at once, each lane in a thread of its own; None:
        as many as there are lanes.
        """
        chosen = choose_device(self.devices.wanted, found, self.devices.pool(stage))
        graph = self.model.lowered.graph
        ops = self.stages[stage] if not self.fused else tuple(op.name for op in graph)
        if stage == 0:
            check_cache_there(self, chosen, found.free_bytes.get(chosen.place))
        lanes = -(-self.lanes // workers) if workers and not stage and self.mode.ordered else 1
        check_memory(graph, ops, self.batch_size, self._free_bytes(stage, found, chosen), str(chosen), lanes)
        return chosen

    def _free_bytes(self, stage: int, found: FoundDevices, chosen: ChosenDevice) -> int | None:
        """Return the memory of a device that is left for batches: rows of tables have theirs from the beginning."""
        free = found.free_bytes.get(chosen.place)
        if free is None or (stage and not self.on_gpu):
            return free
        return free - min(free, (rows_bytes(free) or 0) if stage else caches_bytes(self, chosen))

    def batches_on(self, stage: int, chosen: ChosenDevice, most: int) -> int | None:
        """Return how many batches of a stage a device of this process may hold at once; None on a CPU: any number."""
        if chosen.library == "cpu":
            return None
        free = self._free_bytes(stage, found_devices(), chosen)
        return fitting_batches(self.model.lowered.graph, self.stages[stage], self.batch_size, free, most)

    def scope(self, ops: tuple[str, ...]) -> Scope:
        """Return what running these ops takes and gives."""
        return scope_of(self.model.lowered.graph, ops)

    @property
    def owners(self) -> tuple[int, ...]:
        """Host of each logical shard."""
        return deal_shards(N_SHARDS, self.hosts - self.holder)

    @property
    def dense_ranges(self) -> tuple[tuple[int, int], ...]:
        """First and last dense parameter of each host."""
        if not self.holder:
            return self.model.dense_ranges(self.hosts)
        return *((0, 0) for _ in range(self.hosts - 1)), (0, len(self.model.parameters))

    @cached_property
    def on_gpu(self) -> frozenset[str]:
        """Row groups that the stage holder has, to train them on its device."""
        return frozenset(group.name for group in self.model.groups if group.on_gpu and self.holder)

    @cached_property
    def lent(self) -> frozenset[str]:
        """Those of them whose rows nobody needs where the data is read: they stay with the stage holder."""
        read = set(self.scope(self.stages[0]).feeds) if self.on_gpu else set()
        named = {group.name: pull_name(group) for group in self.model.lowered.groups if group.name in self.on_gpu}
        return frozenset(name for name, pull in named.items() if pull not in read)

    def owners_of(self, group: str) -> tuple[int, ...]:
        """Host of each logical shard of a row group."""
        return (self.hosts - 1,) * N_SHARDS if group in self.on_gpu else self.owners

    def owned_groups(self, host: int, owned: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Logical shards of a host by row group, where ``owned`` are those that the run gave to it."""
        every = tuple(range(N_SHARDS)) if self.is_holder(host) else ()
        return {spec.name: every if spec.name in self.on_gpu else tuple(owned) for spec in self.model.groups}

    def is_holder(self, host: int) -> bool:
        """Whether a host is the stage holder."""
        return self.holder and host == self.hosts - 1

    def owned(self, host: int) -> tuple[int, ...]:
        """Logical shards of a host."""
        return owned_by(self.owners, host)

    def mode_on(self, pool: str) -> Mode:
        """Return the mode of attempts on a worker of a pool: as deep as that is."""
        return self.mode.at_depth(self.depths[pool]) if pool in self.depths else self.mode

    @property
    def in_flight(self) -> int:
        """Batches that one attempt may hold at once."""
        return self.mode.held + 1

    def spec(self, passes: int, **rest: Any) -> RunSpec:
        """Return what the protocol is told."""
        rest = {
            "compute": not self.fused,
            "group": bool(self.reduced),
            "stage_hosts": int(self.holder),
            **rest,
        }
        return RunSpec(self.mode, passes, self.lanes, self.hosts, N_SHARDS, self.replicas, **rest)

    def read(self, dataset: Dataset, split: Split, start: int, bad: BadBook, prefetch: int = 0) -> Reader:
        """Read a Split from batch ``start`` on, up to ``prefetch`` batches ahead in a thread; memory needs none."""
        account = bad.open(split.pass_, split.index)
        if isinstance(dataset, Arrays | Persisted):
            prefetch = 0
        ring = self.in_flight + 1 + (prefetch + 1 if prefetch else 1)  # held here, waiting, being written

        def batches(_: int) -> Iterator[Batch]:
            return dataset.read(
                split, batch_size=self.batch_size, seed=self.model.seed, start=start, bad=account, ring=ring
            )

        return Ahead(batches, prefetch) if prefetch else OneAhead(batches(ring))
