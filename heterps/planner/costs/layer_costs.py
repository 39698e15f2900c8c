"""What each Layer costs on each pool, by named parts; and the planning problem that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heterps.errors import PlanError
from heterps.graph import Graph, Op
from heterps.hardware import Hardware, Pool
from heterps.kernels.program.param_layout import ParamLayout
from heterps.planner.costs.forecast import Cost, TableForecast
from heterps.planner.costs.profile import Profile, Rates
from heterps.stages import Layer, Layers, lower

__all__ = ["Costs"]

_CALLED = 3  # times of a call that a worker takes for a host: rows come, gradients go, and are acknowledged


@dataclass(frozen=True)
class Costs:
    """Layers, pools and rates together.

    Parameters
    ----------
    graph, layers
        The model and its pieces at one batch size.
    hardware, profile
        The pools and what was measured of them.
    tables
        Expected size of each row group.
    head_room
        Part of everything that is to stay free: the planning problem counts all work as so much longer.
    replicas
        Copies of each shard host: gradients travel to each and are applied by each.
    new_rows
        Rows that a row of data brings into the tables, on average over the job; 0 where no data was looked at.
    fused
        Whether plans must have one stage: workers that train on rows of their own have the whole model.
    depth
        Batches in flight of every lane, where somebody has said how many; None: as many as a plan needs.
    even
        Whether all workers that read have as many batches, however fast they are: steps are ordered over lanes. Stages
        are on one pool each then.
    """

    graph: Graph
    layers: Layers
    hardware: Hardware
    profile: Profile
    tables: tuple[TableForecast, ...] = ()
    head_room: float = 0.0
    replicas: int = 1
    new_rows: float = 0.0
    fused: bool = False
    depth: int | None = None
    even: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.head_room < 1:
            raise PlanError(f"head_room is {self.head_room}, must be at least 0 and below 1")

    @property
    def stretch(self) -> float:
        """How many times as long work counts, so that the head-room stays free."""
        return 1 / (1 - self.head_room)

    @cached_property
    def lowered(self) -> Graph:
        """The graph whose ops the Layers hold."""
        return lower(self.graph).graph

    @property
    def batch_size(self) -> int:
        """Rows per batch."""
        return self.layers.batch_size

    @cached_property
    def row_bytes(self) -> float:
        """Bytes of one finished row of data."""
        return sum(op.type.bytes for op in self.graph.inputs)

    def rates(self, pool: Pool) -> Rates:
        """Rates of one unit of a pool."""
        return self._rates[pool.name]

    @cached_property
    def _rates(self) -> dict[str, Rates]:
        pools = self.hardware.pools
        return {pool.name: self.profile.rates(pool.name, pool.device, self.row_bytes) for pool in pools}

    def crowding(self, pool: Pool) -> float:
        """Time of a unit's work while all cores of its Host are at work, over that alone: they share caches and memory.

        What more units do not divide is, on one machine, what each of them loses.
        """
        if pool.host is None or pool.kind != "cpu":
            return 1.0
        fraction = self.rates(pool).compute_fraction
        return fraction + self.hardware.host(pool.host).cores * (1 - fraction)

    @cached_property
    def pulls(self) -> tuple[Op, ...]:
        """The ops that ask for table rows."""
        return tuple(op for op in self.lowered if op.kind == "pull")

    @cached_property
    def dense_size(self) -> int:
        """Number of dense parameters."""
        return ParamLayout(self.lowered).size

    @property
    def dense_bytes(self) -> float:
        """Bytes of the dense parameters on the shard hosts, with their rules' slots and a copy to cut from."""
        return 4.0 * 4 * self.dense_size

    def ids(self, layer: Layer) -> float:
        """Ids that a Layer looks up per batch."""
        return sum(self._ids_of.get(name, 0) for name in layer.ops) * self.batch_size

    @cached_property
    def _ids_of(self) -> dict[str, int]:
        """Ids per row that each pull asks for."""
        return {op.name: op.type.shape[0] for op in self.pulls}

    def byte_s(self, pool: Pool) -> float:
        """Data seconds per byte over the network; on a GPU worker the CPU's part overlaps with kernels too."""
        rates = self.rates(pool)
        return 1 / rates.network_bytes_per_s + (rates.wire_s_per_byte if pool.kind == "gpu" else 0.0)

    def cost(self, layer: Layer, pool: Pool) -> Cost:
        """One batch of a Layer on one unit of a pool."""
        key = layer.ops[0], pool.name
        if key not in self._known:
            self._known[key] = self._alone(layer, pool).slowed(self.crowding(pool))
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[str, str], Cost]:
        """Costs that were asked for, by the first op of a Layer and the pool."""
        return {}

    def _alone(self, layer: Layer, pool: Pool) -> Cost:
        rates, n = self.rates(pool), self.batch_size
        wire = 0.0 if pool.kind == "gpu" else rates.wire_s_per_byte
        access = {self.lowered.kind(self.lowered[name]).access for name in layer.ops}
        if "file" in access:
            return Cost(read_s=rates.read(n), engine_s=rates.batch_s, memory_bytes=layer.cost.written_bytes)
        moved = layer.cost.read_bytes + layer.cost.written_bytes
        if layer.groups:
            half, calls = layer.row_bytes / 2, 2 * rates.call_s
            return Cost(
                dedupe_s=rates.dedupe(self.ids(layer)),
                pull_s=half * wire,
                push_s=half * wire,
                call_s=calls,
                network_s=half * self.byte_s(pool),
                network_bytes=layer.row_bytes,
                memory_bytes=moved,
            )
        dense = 2 * layer.cost.parameter_bytes  # parameters come, gradients go, once a batch
        return Cost(
            kernel_s=self._kernel_s(layer, rates),
            pull_s=dense / 2 * wire,
            push_s=dense / 2 * wire,
            network_s=dense / 2 * self.byte_s(pool),
            network_bytes=dense,
            memory_bytes=moved,
        )

    def _kernel_s(self, layer: Layer, rates: Rates) -> float:
        if layer.name in rates.layers:
            return rates.layers[layer.name](self.batch_size)
        moved = layer.cost.read_bytes + layer.cost.written_bytes
        return max(layer.cost.flops / rates.flops_per_s, moved / rates.bytes_per_s) + len(layer.ops) * rates.launch_s

    def shard_s(self, pool: Pool) -> float:
        """Busy seconds of shard hosts on a pool for one batch, besides calls: rows out and in, rules, parameters."""
        rates = self.rates(pool)
        rows = [op.type.shape[0] * self.batch_size * self.layers.unique_fraction for op in self.pulls]
        wire = (self.shard_bytes + 2 * self.replica_bytes) * rates.wire_s_per_byte  # laid out there, read here
        applied = sum(map(rates.push, rows)) + rates.dense(self.dense_size)
        worked = sum(map(rates.pull, rows)) + self.creating_s(rates) + self.replicas * applied + wire
        return worked * self.crowding(pool)

    def shard_call_s(self, pool: Pool) -> float:
        """Busy seconds of each shard host for one batch, however many there are: a pull, a push to each copy.

        And what a later stage asks for, unless there is none.
        """
        return (1 + self.replicas + self.fetches) * self.rates(pool).call_s * self.crowding(pool)

    @property
    def fetches(self) -> bool:
        """Whether there may be later stages that fetch parameters from every host."""
        return not self.fused and any(layer.cost.parameter_bytes for layer in self.layers.layers[1:])

    def further_call_s(self, pool: Pool) -> float:
        """Busy seconds of a worker that reads for one batch and each shard host after the first."""
        return _CALLED * self.rates(pool).call_s * self.crowding(pool)

    def creating_s(self, rates: Rates) -> float:
        """Busy seconds of shard hosts for the rows that a batch brings into the tables."""
        return self.new_rows * self.batch_size * rates.create_s

    @cached_property
    def shard_bytes(self) -> float:
        """Bytes to and from all shard hosts for one batch."""
        return sum(layer.row_bytes for layer in self.layers.layers) + 2 * 4 * self.dense_size

    @property
    def replica_bytes(self) -> float:
        """Bytes from all shard hosts to their backups for one batch: the gradients once more."""
        return (self.replicas - 1) * self.shard_bytes / 2

    def parts(self, pool: Pool, layers: Mapping[int, Layer] | None = None) -> Cost:
        """Sum of the costs of Layers (all by default) on a pool."""
        chosen = self.layers.layers if layers is None else layers.values()
        return sum((self.cost(layer, pool) for layer in chosen), Cost())

    def worker_bytes(self, layer: Layer, depth: int) -> float:
        """Memory of a worker for a Layer: parameters, gradients and a copy, activations and gradients per batch."""
        return 3 * layer.cost.parameter_bytes + layer.cost.written_bytes * (1 + 0.5 * depth)

    def seconds(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """float[3, L, T]: seconds per row of compute, of receiving and of sending."""
        costs = [[self.cost(layer, pool) for pool in self.hardware.pools] for layer in self.layers.layers]
        compute = [[cost.compute_s for cost in row] for row in costs]
        data = [[cost.network_s for cost in row] for row in costs]
        return np.array([compute, data, data]) / self.batch_size
