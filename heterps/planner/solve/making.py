"""A planning problem made from per-layer figures, with all that nobody gave filled in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.errors import PlanError
from heterps.planner.solve.placement import Bools, Floats, Flow, Shards
from heterps.planner.solve.problem import Problem

__all__ = ["make_problem", "prefixes"]


def prefixes(layers: int) -> Bools:
    """States of a chain."""
    return np.tri(layers + 1, layers, -1, dtype=np.bool_)


def make_problem(
    seconds: npt.ArrayLike,
    fraction: npt.ArrayLike = 1.0,
    price: npt.ArrayLike = 1.0,
    *,
    cap: npt.ArrayLike = np.inf,
    sold_in: npt.ArrayLike = 1,
    product: Sequence[int] | None = None,
    members: Bools | None = None,
    allowed: npt.ArrayLike = True,
    flows: Sequence[Flow] = (),
    receive_s: npt.ArrayLike = 0.0,
    send_s: npt.ArrayLike = 0.0,
    gradients: npt.ArrayLike = 0.0,
    turn_s: npt.ArrayLike = 0.0,
    memory: npt.ArrayLike = 0.0,
    memory_cap: npt.ArrayLike = np.inf,
    layer_held: npt.ArrayLike = 0.0,
    cut_memory: float = 0.0,
    held: int = 1,
    layer_way: npt.ArrayLike = 0.0,
    cut_way: npt.ArrayLike = 0.0,
    own_way: npt.ArrayLike = 0.0,
    way: float = 0.0,
    deepest: float = np.inf,
    usage: npt.ArrayLike | None = None,
    byte_usage: npt.ArrayLike = 0.0,
    turn_usage: npt.ArrayLike = 0.0,
    fixed_usage: npt.ArrayLike = 0.0,
    capacity: Sequence[float] = (),
    link: npt.ArrayLike = np.inf,
    to_hosts: npt.ArrayLike = 0.0,
    from_hosts: npt.ArrayLike = 0.0,
    between_hosts: float = 0.0,
    hosts_on: int = -1,
    mixes: Sequence[tuple[int, int]] = (),
    shards: Shards | None = None,
    kinds: Sequence[str] = (),
) -> Problem:
    """Make a Problem from per-layer figures; see there. Scalars are broadcast.

    ``seconds`` is [R, L, T] (or [L, T]: no data time), ``fraction`` the parallel part, broadcast to it; ``receive_s``,
    ``send_s`` and ``turn_s`` are [R, T] (or [T]: data time only). ``link`` is [T, T]: bytes per second from one type to
    another; ``to_hosts`` and ``from_hosts`` are [L]: bytes per row that whoever runs a Layer sends to shard hosts, and
    gets from them, ``between_hosts`` what these send to one another, and ``hosts_on`` is the type that they sit on.
    """
    times = np.asarray(seconds, float)
    times = np.stack([times, np.zeros_like(times)]) if times.ndim == 2 else times
    resources, layers, types = times.shape
    hosts = len(capacity)
    share = np.broadcast_to(np.asarray(fraction, float), times.shape)
    if (times < 0).any() or (share < 0).any() or (share > 1).any():
        raise PlanError("planning problem: times must not be negative and parallel fractions must lie in [0, 1]")
    shared = _Shared(
        _spread(0.0 if usage is None else usage, (hosts, layers, types)),
        _spread(byte_usage, (hosts, types)),
        _spread(turn_usage, (hosts, types)),
        _spread(fixed_usage, (hosts,)),
        np.asarray(capacity, float),
    )
    shared, links = _with_links(
        shared,
        _spread(link, (types, types)),
        (_spread(to_hosts, (layers,)), _spread(from_hosts, (layers,)), between_hosts),
        hosts_on,
    )
    return Problem(
        members=prefixes(layers) if members is None else members,
        layer_serial=times * (1 - share),
        layer_parallel=times * share,
        allowed=_spread(allowed, (layers, types), bool),
        layer_memory=_spread(memory, (layers, types)),
        memory_cap=_spread(memory_cap, (types,)),
        layer_held=_spread(layer_held, (layers, types)),
        cut_memory=cut_memory,
        held=held,
        layer_way=_spread(layer_way, (layers, types)),
        cut_way=_spread(cut_way, (types,)),
        own_way=_spread(own_way, (3, types)),
        way=way,
        deepest=deepest,
        flows=tuple(flows),
        receive_s=_by_resource(receive_s, resources, types),
        send_s=_by_resource(send_s, resources, types),
        turn_s=_by_resource(turn_s, resources, types),
        gradients=_spread(gradients, (layers,)),
        price=_spread(price, (types,)),
        cap=_spread(cap, (types,)),
        sold_in=_spread(sold_in, (types,), np.int64),
        product=_numbered(range(types) if product is None else product),
        layer_usage=shared.layers,
        byte_usage=shared.bytes,
        turn_usage=shared.turns,
        fixed_usage=shared.fixed,
        capacity=shared.capacity,
        link=links,
        mixes=np.asarray(mixes, np.int64).reshape(-1, 2),
        shards=shards or Shards(),
        kinds=tuple(kinds) or ("cpu",) * types,
    )


class _Shared(NamedTuple):
    """What rows take from shared capacities, by Layer, by byte and turn at a cut, in any case; and what there is."""

    layers: Floats
    bytes: Floats
    turns: Floats
    fixed: Floats
    capacity: Floats


def _with_links(
    shared: _Shared, limits: Floats, moved: tuple[Floats, Floats, float], hosts_on: int
) -> tuple[_Shared, npt.NDArray[np.int64]]:
    """Links as shared capacities: what passes to and from shard hosts takes part of them, beside what passes at cuts.

    And the number of the capacity that each link is, -1 where there is none.
    """
    pairs = [(int(a), int(b)) for a, b in zip(*np.isfinite(limits).nonzero(), strict=True)]
    number = np.full(limits.shape, -1, np.int64)
    types, (out, into, between) = len(limits), moved
    used, fixed = np.zeros((len(pairs), len(out), types)), np.zeros(len(pairs))
    for h, (a, b) in enumerate(pairs):
        number[a, b] = len(shared.capacity) + h
        used[h, :, a] += out if b == hosts_on else 0.0
        used[h, :, b] += into if a == hosts_on else 0.0
        fixed[h] = between if a == b == hosts_on else 0.0
    none = np.zeros((len(pairs), types))
    more = _Shared(used, none, none, fixed, np.array([limits[pair] for pair in pairs], float))
    return _Shared(*(np.concatenate(both) for both in zip(shared, more, strict=True))), number


def _numbered(groups: Iterable[int]) -> npt.NDArray[np.int64]:
    """Groups by any numbers, numbered from 0 in the order in which they come."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups], np.int64)


def _by_resource(value: npt.ArrayLike, resources: int, types: int) -> Floats:
    given = np.asarray(value, float)
    if given.ndim == 2:
        return _spread(given, (resources, types))
    return np.stack([np.zeros(types), *(_spread(given, (types,)) for _ in range(resources - 1))])


def _spread(value: npt.ArrayLike, shape: tuple[int, ...], dtype: Any = float) -> npt.NDArray[Any]:
    return np.array(np.broadcast_to(np.asarray(value, dtype), shape))
