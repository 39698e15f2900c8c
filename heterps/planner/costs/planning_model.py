"""From Layers, pools and rates to the planning problem."""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from heterps.errors import PlanError
from heterps.hardware import Hardware, Host, Pool
from heterps.planner.costs.forecast import TableForecast
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.costs.on_the_way import comes_first, depths_of, in_flight_figures
from heterps.planner.costs.table_memory import with_tiers
from heterps.planner.solve.calls import Calls
from heterps.planner.solve.making import make_problem
from heterps.planner.solve.placement import Flow, Shards
from heterps.planner.solve.problem import Problem
from heterps.stages import Layer

__all__ = [
    "MEMORY_SHARE",
    "build_problem",
    "check_pins",
    "free_cores",
    "is_priced",
    "paid_text",
    "placed_tables",
    "server_pools",
    "shared_name",
    "sold_in",
    "unit_prices",
]

MEMORY_SHARE = 0.8  # of a worker's memory that plans may fill
_SERVING = 1 + 1e-9


def build_problem(costs: Costs, server: Pool, pins: Mapping[str, str] | None = None) -> Problem:
    """Return the problem with shard hosts on ``server``; ``pins`` maps names (patterns) to pools or kinds."""
    pools, layers = costs.hardware.pools, costs.layers.layers
    rates = [costs.rates(pool) for pool in pools]
    n = costs.batch_size
    bus = [1 / p.device.bus_bytes_per_s if p.device.bus_bytes_per_s else 0.0 for p in pools]
    wire = [0.0 if pool.kind == "gpu" else rate.wire_s_per_byte for pool, rate in zip(pools, rates, strict=True)]
    network = [costs.byte_s(pool) + b for pool, b in zip(pools, bus, strict=True)]
    shared = [1.0 if pool.host else rate.compute_fraction for pool, rate in zip(pools, rates, strict=True)]
    fractions = np.array([shared, *[[r.data_fraction for r in rates]] * 2])
    links = np.array([[_link(costs, a, b) for b in pools] for a in pools])
    longer = costs.stretch
    allowed = [[_may_run(layer, pool, pins or {}) for pool in pools] for layer in layers]
    shards = _shards(costs, server, pins or {})
    made = make_problem(
        costs.seconds() * longer,
        fractions[:, None, :],
        unit_prices(costs.hardware),
        cap=[math.inf if pool.cap is None else pool.cap for pool in pools],
        sold_in=[sold_in(costs.hardware, pool) for pool in pools],
        product=_products(costs.hardware),
        allowed=allowed,
        flows=[
            Flow(e.source, e.target, e.tensor, e.forward_bytes / n, e.backward_bytes / n) for e in costs.layers.edges
        ],
        receive_s=np.array([wire, network, 0.0 * np.array(network)]) * longer,
        send_s=np.array([wire, 0.0 * np.array(network), network]) * longer,
        turn_s=np.array([[rate.call_s / n for rate in rates], *[[0.0] * len(pools)] * 2]) * longer,
        gradients=[layer.cost.parameter_bytes / n for layer in layers],
        **_worker_memory(costs),
        **in_flight_figures(costs, server, allowed[0]),
        memory_cap=[pool.device.memory_bytes * MEMORY_SHARE for pool in pools],
        link=links / longer,
        **_with_hosts(costs, server),
        mixes=[] if costs.even or np.isfinite(links).any() else _mixes(pools),
        shards=shards,
        kinds=[pool.kind for pool in pools],
        **_shared(costs, server),
    )
    return replace(made, fused=costs.fused, calls=_calls(costs, server)).calling(shards.minimum)


def _with_hosts(costs: Costs, server: Pool) -> dict[str, Any]:
    """Bytes per row to and from shard hosts: rows and parameters where they are used; gradients from the first stage.

    Gradients of parameters are passed on to it, so they count as the first Layer's, which reads.
    """
    layers, n = costs.layers.layers, costs.batch_size
    rows = np.array([layer.row_bytes / 2 for layer in layers])
    dense = np.array([0.0 if layer.groups else layer.cost.parameter_bytes for layer in layers])
    return {
        "to_hosts": (rows + dense.sum() * (np.arange(len(layers)) == 0)) / n,
        "from_hosts": (rows + dense) / n,
        "between_hosts": costs.replica_bytes / n,
        "hosts_on": costs.hardware.pools.index(server),
    }


def _worker_memory(costs: Costs) -> dict[str, Any]:
    """Bytes a worker needs for each Layer, for each batch, and for each byte per row that crosses a cut beside it."""
    once, one = (np.array([[costs.worker_bytes(v, n)] for v in costs.layers.layers]) for n in (0, 1))
    return {
        "memory": once,
        "layer_held": one - once,
        "cut_memory": float(costs.batch_size),
        "held": depths_of(costs)[0],
    }


def placed_tables(costs: Costs, server: Pool, pins: Mapping[str, str]) -> tuple[TableForecast, ...]:
    """Tables with their tiers, shard hosts being on ``server``.

    Where shard hosts are units, there are as many as hold all rows, or no plan: rows that went to disk where units are
    few would make plans with fewer units, or with backups, the cheaper ones.
    """
    room = math.inf if server.host is None else costs.hardware.host(server.host).memory_bytes
    kinds = {pool.name: pool.kind for pool in costs.hardware.pools}
    gpu_only = {
        group
        for layer in costs.layers.layers
        for group in layer.groups
        if {kinds[pool.name] for pool in costs.hardware.pools if _may_run(layer, pool, pins)} == {"gpu"}
    }
    return with_tiers(costs.tables, room * MEMORY_SHARE / costs.replicas, frozenset(gpu_only))


def server_pools(costs: Costs) -> tuple[Pool, ...]:
    """Pools on which shard hosts may sit."""
    found = tuple(pool for pool in costs.hardware.pools if pool.serves and pool.kind == "cpu" and pool.cap != 0)
    if not found:
        raise PlanError("no cpu pool may carry shard hosts: give one of the pools serves = true and a cap above 0")
    return found


def sold_in(hardware: Hardware, pool: Pool) -> int:
    """Units of a pool that are bought at once."""
    product = hardware.product_of(pool.name)
    return pool.device.sold_in if product is None else product.pools[pool.name]


def _products(hardware: Hardware) -> list[int]:
    """A number for each pool, the same for pools of one product."""
    first = {name: next(iter(product.pools)) for product in hardware.products for name in product.pools}
    names = [pool.name for pool in hardware.pools]
    return [names.index(first.get(name, name)) for name in names]


def unit_prices(hardware: Hardware) -> list[float]:
    """Prices of units per hour; where nothing has a price, units and whole products are what is saved.

    A product's price is divided evenly among its pools at first. Among pools that are worth the same, stages go to
    those that carry no shard hosts.
    """
    priced = is_priced(hardware)
    prices = []
    for pool in hardware.pools:
        product = hardware.product_of(pool.name)
        if product is not None:
            whole = product.price_per_hour if priced else 1.0
            prices.append(whole / len(product.pools) / product.pools[pool.name])
        else:
            price = pool.device.price_per_hour if priced else 1.0
            prices.append(price * (_SERVING if pool.serves else 1.0))
    return prices


def is_priced(hardware: Hardware) -> bool:
    """Whether anything has a price."""
    units = any(pool.device.price_per_hour for pool in hardware.pools)
    return units or any(product.price_per_hour for product in hardware.products)


def paid_text(price: float, priced: bool) -> str:
    """What is paid, in words: so much an hour; where nothing has a price, so many units."""
    text = f"{price:,.2f}" if price >= 0.01 or price == 0 else f"{price:.3g}"
    return f"{text} an hour" if priced else f"{text.removesuffix('.00')} unit{'s' * (text != '1.00')}"


def _pinned_to(layer: Layer, pins: Mapping[str, str]) -> list[str]:
    """Where pins send a Layer, or an op of it."""
    return [where for name, where in pins.items() if any(fnmatch.fnmatch(n, name) for n in (layer.name, *layer.ops))]


def _may_run(layer: Layer, pool: Pool, pins: Mapping[str, str]) -> bool:
    if pinned := _pinned_to(layer, pins):
        return all(where in (pool.name, pool.kind) for where in pinned)
    return layer.place in (None, pool.kind)


def check_pins(costs: Costs, pins: Mapping[str, str]) -> None:
    """Refuse pins that name nothing, or send a Layer to two places."""
    names = {name for layer in costs.layers.layers for name in (layer.name, *layer.ops)}
    places = {pool.name for pool in costs.hardware.pools} | {pool.kind for pool in costs.hardware.pools}
    for name, where in pins.items():
        if not fnmatch.filter(names, name):
            raise PlanError(
                f"pin {name}={where}: no op or layer is called {name!r}; there are {', '.join(sorted(names))}"
            )
        if where not in places:
            raise PlanError(f"pin {name}={where}: no pool or kind {where!r}; there are {', '.join(sorted(places))}")
    for layer in costs.layers.layers:
        if not any(_may_run(layer, pool, pins) for pool in costs.hardware.pools):
            if len(set(_pinned_to(layer, pins))) > 1:
                raise PlanError(
                    f"the ops {', '.join(layer.ops)} are one layer, which runs in one place, and pinned to "
                    f"{' and '.join(dict.fromkeys(_pinned_to(layer, pins)))}: drop all but one of these pins"
                )
            raise PlanError(
                f"layer {layer.name!r} may run on no pool: it holds {', '.join(layer.ops)}; the graph places it on "
                f"{layer.place or 'any'}{f', the pins are {dict(pins)}' if pins else ''}. Add a pool of that kind"
                f"{' or drop the pin' if pins else ''}"
            )


def _mixes(pools: tuple[Pool, ...]) -> list[tuple[int, int]]:
    """Pairs of one kind that differ in speed, of which the first is limited: it is used up, the second fills up."""
    return [
        (a, b)
        for (a, p), (b, q) in itertools.permutations(enumerate(pools), 2)
        if p.kind == q.kind and p.cap is not None and p.device != q.device
    ]


def _link(costs: Costs, a: Pool, b: Pool) -> float:
    link = costs.hardware.link(a.name, b.name)
    return math.inf if link is None else link.bytes_per_s


def _shards(costs: Costs, server: Pool, pins: Mapping[str, str]) -> Shards:
    """Shard hosts: on a shared Host they take no unit, only its cores and memory; elsewhere they are units.

    Each is a process with the network of a unit, wherever it is.
    """
    busy, calls = (each(server) / costs.batch_size * costs.stretch for each in (costs.shard_s, costs.shard_call_s))
    network = _shard_network_bytes(costs) / costs.rates(server).network_bytes_per_s * costs.stretch
    needed = sum(table.bytes for table in placed_tables(costs, server, pins) if table.tier == "memory")
    needed = costs.replicas * (needed + costs.dense_bytes)
    if server.host is not None:
        cores = server.device.cores / costs.hardware.host(server.host).cores  # a host may take all of its machine's
        return Shards(busy * cores, costs.replicas, calls=calls * cores, network=network)
    minimum = max(costs.replicas, math.ceil(needed / (server.device.memory_bytes * MEMORY_SHARE)))
    return Shards(busy, minimum, type=costs.hardware.pools.index(server), calls=calls, network=network)


def _calls(costs: Costs, server: Pool) -> Calls:
    """What shard hosts after the first add: a worker that reads calls each of them for every batch.

    Where no Layer is known to read for all others, nothing is said of workers.
    """
    pools, n = costs.hardware.pools, costs.batch_size
    called = np.array([costs.further_call_s(pool) for pool in pools]) / n * comes_first(costs)
    shared = np.array([1.0 if pool.host else costs.rates(pool).compute_fraction for pool in pools])
    usage, fixed = [], []
    for host in costs.hardware.hosts:
        cores = np.array(
            [pool.device.cores if pool.kind == "cpu" and pool.host == host.name else 0.0 for pool in pools]
        )
        here = float(server.host == host.name)
        usage += [called * cores, 0 * cores]
        fixed += [here * costs.shard_call_s(server) * server.device.cores / n, 0.0]
    seconds = called * costs.stretch
    every = np.array(usage).reshape(-1, len(pools))
    return Calls(seconds * (1 - shared), seconds * shared, every, np.array(fixed))


def _shard_network_bytes(costs: Costs) -> float:
    """Bytes per row that shard hosts send, and receive; to backups: out of one, into another."""
    return (costs.shard_bytes / 2 + costs.replica_bytes) / costs.batch_size


def _shared(costs: Costs, server: Pool) -> dict[str, Any]:
    """What pools take from the Hosts they share: core seconds and memory bytes per row, and what the Hosts have.

    Last the network of shard hosts on a Host: as they take no unit there, nothing else says how many it has room for.
    All together have that of as many units as their pool has.
    """
    pools, layers, n = costs.hardware.pools, costs.layers.layers, costs.batch_size
    usage, per_byte, per_turn, fixed, capacity = [], [], [], [], []
    for host in costs.hardware.hosts:
        on = np.array([float(pool.host == host.name) for pool in pools])
        cores = np.array([pool.device.cores if pool.kind == "cpu" else 0.0 for pool in pools]) * on
        busy = np.array([[costs.cost(layer, pool).compute_s for pool in pools] for layer in layers])
        moved = np.array([[costs.cost(layer, pool).memory_bytes for pool in pools] for layer in layers])
        wire = np.array([costs.rates(pool).wire_s_per_byte for pool in pools])
        calls = np.array([costs.rates(pool).call_s for pool in pools])
        here = float(server.host == host.name)
        usage += [busy * cores / n, moved * on / n]
        per_byte += [wire * cores, 2 * on]
        per_turn += [calls * cores / n, 0 * on]
        fixed += [
            here * (costs.shard_s(server) + costs.shard_call_s(server)) * server.device.cores / n,
            here * 3 * (costs.shard_bytes + costs.replica_bytes) / n,
        ]
        capacity += [free_cores(costs, host), host.memory_bytes_per_s * host.count]
    if server.host is not None and server.cap is not None:
        nobody = np.zeros(len(pools))
        usage.append(np.zeros((len(layers), len(pools))))
        per_byte.append(nobody)
        per_turn.append(nobody)
        fixed.append(_shard_network_bytes(costs))
        capacity.append(server.cap * costs.rates(server).network_bytes_per_s)
    if not capacity:
        return {}
    return {
        "usage": np.array(usage),
        "byte_usage": np.array(per_byte),
        "turn_usage": np.array(per_turn),
        "fixed_usage": np.array(fixed, float),
        "capacity": np.array(capacity, float) / costs.stretch,
    }


def shared_name(problem: Problem, hardware: Hardware, number: int) -> str:
    """What a shared capacity of a problem is: a link, or something of a Host."""
    ends = np.argwhere(problem.link == number)
    if len(ends):
        return "link " + " - ".join(hardware.pools[int(t)].name for t in ends[0])
    if number == 2 * len(hardware.hosts):
        return "network of the shard hosts"
    return f"{('cores', 'memory bandwidth')[number % 2]} of host {hardware.hosts[number // 2].name}"


def free_cores(costs: Costs, host: Host) -> float:
    """Cores of a Host, less what a worker for each of them, a shard host, scheduler and driver take to be there."""
    on = [pool for pool in costs.hardware.pools if pool.host == host.name]
    idle = max((costs.rates(pool).idle_cores for pool in on), default=0.0)
    return host.count * max(host.cores - idle * (host.cores + 3), 0.5)
