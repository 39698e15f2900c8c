"""The Plan: a frozen value that says what runs where, and what that is expected to do."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from heterps.documents import read_json
from heterps.errors import PlanError
from heterps.fields import Count, Found, Fraction, NotNegative, check_fields
from heterps.graph import Graph
from heterps.hardware import Device, Pool
from heterps.hardware.values import pool_to_json
from heterps.html_table import html_table
from heterps.planner.costs.forecast import Certificate, Forecast, Rival
from heterps.planner.purchases import Purchase
from heterps.planner.ways import resolve_ways
from heterps.protocol.words.modes import Async, Mixed, Mode
from heterps.stages import layers_of, lower
from heterps.writing import write_whole

__all__ = ["Plan", "Share", "Stage"]

_FORMAT = "heterps-plan/1"
_PLAIN = ("batch_size", "shard_hosts", "shard_pool", "replicas", "lanes", "depth")


@dataclass(frozen=True)
class Share:
    """A further pool that helps with a stage: ``share`` of the stage's batches go to its units."""

    pool: str
    units: Count
    share: Fraction

    def __post_init__(self) -> None:
        check_fields(self, PlanError, f"a share of pool {self.pool!r}")


@dataclass(frozen=True)
class Stage:
    """Layers placed together.

    ``ops`` are those of the lowered graph, in topological order. ``units`` workers of ``pool`` run the stage; where
    pools of unequal speed run one stage, the others stand in ``also`` and work is given by speed.
    """

    name: str
    layers: tuple[str, ...]
    ops: tuple[str, ...]
    pool: str
    units: Count
    also: tuple[Share, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, PlanError, f"stage {self.name!r}")

    @property
    def workers(self) -> dict[str, int]:
        """Number of workers by pool."""
        return {self.pool: self.units} | {share.pool: share.units for share in self.also}

    @property
    def shares(self) -> dict[str, float]:
        """Part of the stage's batches by pool."""
        others = {share.pool: share.share for share in self.also}
        return {self.pool: 1 - sum(others.values())} | others


@dataclass(frozen=True)
class Plan:
    """What runs where.

    Parameters
    ----------
    graph
        The model.
    stages
        In the order in which a batch passes them.
    pools
        The pools that the plan uses, with their devices.
    shard_hosts, shard_pool
        Number of shard hosts and the pool whose workers carry them.
    replicas
        Copies of each shard host: with 2 a host that is lost costs nothing, as its backup takes over.
    lanes, batch_size, depth
        Lanes of the Sync mode; rows per batch; batches in flight per lane.
    depths
        Batches in flight of a lane by pool, where pools of unequal speed read; ``depth`` is the most of them.
    mode
        The consistency mode.
    parameters
        How parameters travel: ``{pattern: way}``, see :func:`~heterps.planner.ways.resolve_ways`.
    memory_bytes
        Expected memory of one worker, by pool (tables included where shard hosts sit).
    purchases
        What is rented for it: whole machines where units are parts of them, else units; nothing where pools sit on
        Hosts, which are there.
    forecast, certificate, rivals, assumptions
        What the model expects, how well that is proved, what lost and why, what it rests on.
    """

    graph: Graph
    stages: tuple[Stage, ...]
    pools: tuple[Pool, ...]
    batch_size: Count
    shard_hosts: Count = 1
    shard_pool: str = "cpu"
    replicas: Count = 1
    lanes: Count = 1
    depth: Count = 2
    mode: Mode = field(default_factory=Async)
    memory_bytes: Mapping[str, NotNegative] = field(default_factory=dict)
    forecast: Forecast | None = None
    certificate: Certificate | None = None
    rivals: tuple[Rival, ...] = ()
    assumptions: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    purchases: tuple[Purchase, ...] = ()
    depths: Mapping[str, Count] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self, PlanError, "plan")
        if self.parameters:
            resolve_ways(self.graph, self.parameters)
        if not self.stages:
            raise PlanError("a plan without a stage runs nothing")
        pools = {pool.name for pool in self.pools}
        for name in (pool for stage in self.stages for pool in stage.workers):
            if name not in pools:
                raise PlanError(
                    f"a stage runs on pool {name!r}, which the plan does not describe; it has {sorted(pools)}"
                )
        if self.replicas > 2:
            raise PlanError(f"plan: replicas={self.replicas}; use 1 (return to the last cut) or 2 (a backup per host)")
        self._check_depths()
        if self.shard_pool not in pools:
            raise PlanError(f"shard hosts sit on pool {self.shard_pool!r}, which the plan does not describe")

    def _check_depths(self) -> None:
        reading = self.stages[0].workers
        for pool in self.depths:
            if pool not in reading:
                raise PlanError(f"depths: pool {pool!r} does not read; those that do are {', '.join(reading)}")
        if self.depths and (most := max(map(self.depth_on, reading))) != self.depth:
            raise PlanError(f"depth is {self.depth}, but the most of depths is {most}")

    def depth_on(self, pool: str) -> int:
        """Batches in flight of a lane on a pool."""
        return self.depths.get(pool, self.depth)

    def depths_in(self, mode: Mode) -> Mapping[str, int]:
        """Depths by pool in a mode: those of the plan, where it has the plan's depth, else none that differ."""
        return self.depths if isinstance(mode, Async | Mixed) and mode.depth == self.depth else {}

    def pool(self, name: str) -> Pool:
        """Return a pool of the plan by name."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise PlanError(f"the plan uses no pool {name!r}; it uses {', '.join(pool.name for pool in self.pools)}")

    def stage_of(self, op: str) -> Stage:
        """Return the stage that runs an op of the lowered graph."""
        for stage in self.stages:
            if op in stage.ops:
                return stage
        raise PlanError(f"no stage runs op {op!r}")

    @property
    def units(self) -> dict[str, int]:
        """Stage workers by pool (shard hosts not counted)."""
        total: dict[str, int] = {}
        for stage in self.stages:
            for pool, units in stage.workers.items():
                total[pool] = total.get(pool, 0) + units
        return total

    @property
    def servers(self) -> int:
        """Workers that carry shard hosts, at least: a backup is never on the worker of its primary."""
        return max(self.shard_hosts, self.replicas)

    @property
    def workers(self) -> dict[str, int]:
        """Workers by pool: those of stages, and those that carry shard hosts unless they share a Host with stages."""
        total = self.units
        if self.pool(self.shard_pool).host is None:
            total[self.shard_pool] = total.get(self.shard_pool, 0) + self.servers
        return total

    @property
    def is_fused(self) -> bool:
        """Whether one stage holds everything, so that nothing crosses between workers but rows."""
        return len(self.stages) == 1

    def _repr_html_(self) -> str:
        rows = [
            (s.name, ", ".join(f"{n} x {pool}" for pool, n in s.workers.items()), len(s.ops), ", ".join(s.layers))
            for s in self.stages
        ]
        caption = f"Plan: batches of {self.batch_size:,}, {self.mode.name}"
        caption += f", {self.shard_hosts} shard hosts on {self.shard_pool}"
        if self.forecast is not None:
            caption += f", {self.forecast.rows_per_second:,.0f} rows a second forecast"
        return html_table(caption, ("stage", "workers", "ops", "layers"), rows)

    @classmethod
    def fused(cls, graph: Graph, *, batch_size: int, workers: int = 1, pool: Pool | None = None, **rest: Any) -> Plan:
        """Everything in one stage on one cpu pool: the plan made by hand, nothing measured, nothing forecast."""
        Found(batch_size, PlanError, "plan", "batch_size").read(Count)
        layers = layers_of(graph, batch_size=batch_size).layers
        ops = tuple(op.name for op in lower(graph).graph)
        pool = pool or Pool("cpu", _UNMEASURED)
        stage = Stage("all", tuple(layer.name for layer in layers), ops, pool.name, workers)
        rest = {
            "lanes": workers,
            "shard_pool": pool.name,
            "assumptions": ("made by hand: nothing was forecast",),
            **rest,
        }
        return cls(graph, (stage,), (pool,), batch_size, **rest)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; :meth:`from_json` gives an equal plan."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {
            "format": _FORMAT,
            **plain,
            **({"depths": dict(self.depths)} if self.depths else {}),
            "mode": self.mode.to_json(),
            "parameters": dict(self.parameters),
            "stages": [asdict(stage) for stage in self.stages],
            "pools": [pool_to_json(pool) for pool in self.pools],
            "memory_bytes": dict(self.memory_bytes),
            "purchases": [{**vars(each), "holds": dict(each.holds)} for each in self.purchases],
            "forecast": asdict(self.forecast) if self.forecast else None,
            "certificate": asdict(self.certificate) if self.certificate else None,
            "rivals": [asdict(rival) for rival in self.rivals],
            "assumptions": list(self.assumptions),
            "graph": self.graph.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | Found) -> Plan:
        """Inverse of :meth:`to_json`."""
        found = Found.of(data, PlanError, "plan")
        if "format" not in found.members():
            found.fault("no plan; `heterps plan --out` saves one")
        found["format"].read(Literal[_FORMAT])
        return found.without("format").make(cls)

    def report(self) -> str:
        """Return the plan and what is expected of it as text."""
        from heterps.planner.show.text_report import report_text

        return report_text(self)

    def save(self, path: str | pathlib.Path) -> None:
        """Write the plan as JSON."""
        write_whole(path, json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | pathlib.Path) -> Plan:
        """Read a plan that :meth:`save` wrote."""
        return cls.from_json(read_json(path, PlanError))


_UNMEASURED = Device(
    "unmeasured-core", "cpu", {"float32": 1e11}, 8e9, 1e10, 1e9, source="nominal: nothing was measured for this plan"
)
