"""How many batches a plan has in flight at the least: what the search counts before any plan is played.

A plan at X rows a second with batches of B has in flight ``AHEAD * X/B`` times the seconds W that a batch is on its way
(:func:`heterps.planner.costs.playing.depth_for`), in whole batches per lane, at least ``DEPTH``; W is played. A plan
whose lanes would need more than ``DEEPEST`` is none: it has more lanes, or another throughput. So memory and lanes that
the search asks for are asked of every plan, if what it counts is never more than what is played. A depth that somebody
gave stands for both limits (:func:`depths_of`). In Sync batches in flight are lanes, as many to each reading worker; a
plan that is played fast enough with one to each has fewer in flight than counted, and room for the others all the same.

**Theorem.** W is at least the sum of

- the kernels of every Layer on the type of its stage, and what its parameters take there: their bytes from the hosts,
  and laying them and their gradients out where the worker is no GPU; as long again as the hosts do that;
- over every cut, the bytes that cross (forward, and gradients back; a tensor once for each cut) and the gradients of
  all parameters behind it, as long as the slower of the two types beside it is busy with them: no less than any part
  of what one is, and the rest of what the other is;
- at either side of it, while a worker that is no GPU lays out, or reads, what it sends and receives (gradients that are
  passed on: whoever passes them on), or what crosses is copied to a device and from it; and a call behind it;
- the work of shard hosts for a batch; and the bytes of its rows, of their gradients and of those of dense parameters on
  the network of the worker that reads, or of a host of which there is one for each replica, whichever takes longer: on
  the type of the first stage where the Layer that reads is in it, else on the type where that takes least.

Bytes of parameters from the hosts take that, too.

A stage knows of this sum what is in itself and at the cuts beside it, and of each other Layer what it takes on the
type, among those that it is allowed on, where that is least: a bound too. Where a stage is on two types: the less of
the two.

**Proof.** W is the time from batch to batch of a play with one worker to a stage and one batch between its first pull
and its last acknowledgement (``Async(1)``). Between these two, in this order, nothing of it beside the rest:

1. *Kernels.* Stage after stage forward, then back: a third and two thirds of ``kernel_s`` of all Layers of the stage on
   its pool, in one thread. The worker's pace is 1 (it is alone, and the figures are those of its own pool), a thread
   gets at most a whole core, and what is crowded by its Host is so in both. A Layer of another stage is on a type that
   it is allowed on, so it takes no less than where it takes least.
2. *Cuts.* Between two stages a message with the forward bytes of the cut, later one with those of its gradients and of
   all parameters behind it. Sender and receiver are two workers, so it takes at least its bytes over what either of
   them sends or receives a second, ``1/byte_s`` of its pool, whatever link is between. Before it is sent, and after it
   came, a worker that is no GPU is busy with its bytes, in the same thread as with kernels; gradients of parameters are
   laid out by whoever passes them on. A later stage copies what crosses beside it over its bus, half of it before its
   kernels and half after them; the first does not, so buses count only for types that cannot be first.
3. *Parameters.* A later stage asks the hosts for its parameters when a batch comes, and begins when all are there: the
   hosts lay them out, they come to one worker one after another, which reads them, and lays their gradients out. Those
   of the first stage come with its rows and go with theirs: the same bytes over its network; of the work, what is for
   one of the hosts, of which there is one for each replica, is beside no message.
4. *Rows.* Before the first kernel every host serves its part of the pull, and the worker that reads receives all rows,
   one message after another, none sent before its host has served. After the last kernel it sends all gradients
   likewise, and the host to which it sends last applies its part when they are there. In W there is a host for each
   replica, all alike: so much of ``serve_s`` and ``apply_s`` passes, and each host sends its part of the rows, and
   receives that of their gradients, at what its own network carries: no pull or push is over before. The first stage
   has the Layer that reads wherever all others come after it; where they do not, the type where it takes least counts.
5. All else (reading ahead, other calls, messages without bytes) is left out here, and takes no less than nothing there.

The times add up, as they do not overlap. Of lanes on two pools each has AHEAD times what it carries, by a depth for
each pool: together, the shares adding up to 1, at least the mean over them, which is no less than the least; so for
batches that go on to one or the other of two pools. Depths are rounded up. That all this is so of every plan that is
made is checked when its depth is known (:func:`heterps.planner.solve.checks.check_counted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from heterps.hardware import Pool
from heterps.planner.costs.layer_costs import Costs
from heterps.planner.solve.problem import Problem

__all__ = ["AHEAD", "DEPTH", "comes_first", "depths_of", "in_flight_figures", "wire_s", "with_in_flight"]

DEPTH = 2  # batches in flight per lane, at the least
DEEPEST = 512  # at the most
AHEAD = 1.2  # batches in flight over those that are at work, so that those who work need not wait for one


def in_flight_figures(costs: Costs, server: Pool, may_read: Sequence[bool]) -> dict[str, Any]:
    """Batches in flight per row a second for what a batch that is alone on its way takes at least, and the most.

    ``may_read`` says for each pool whether the first Layer may run there.
    """
    n, pools, layers = costs.batch_size, costs.hardware.pools, costs.layers.layers
    seconds = np.array([[costs.cost(layer, pool).kernel_s for pool in pools] for layer in layers])
    wires, bytes_ = (np.array([each(costs, pool) for pool in pools]) for each in (wire_s, Costs.byte_s))
    laid = 2 * wires / costs.replicas  # what one host sends is read while another's is on its way
    asked = np.maximum(bytes_, costs.byte_s(server) / costs.replicas)  # over the network of either side
    seconds += np.array([[layer.cost.parameter_bytes] for layer in layers]) * (asked + laid)
    hosts, rows, first = _hosts_s(costs, server), _moved(costs) * asked, comes_first(costs)
    if first:
        seconds[0] += rows
    else:
        hosts += float(rows.min())
    later = [first and not reads for reads in may_read]  # no first stage has one of these types
    copied = [
        1 / p.device.bus_bytes_per_s if ok and p.device.bus_bytes_per_s else 0.0
        for ok, p in zip(later, pools, strict=True)
    ]
    calls = np.array([costs.rates(pool).call_s * costs.crowding(pool) for pool in pools])
    return {
        "layer_way": AHEAD * seconds / n,
        "cut_way": AHEAD * bytes_,
        "own_way": AHEAD * np.array([wires + copied, wires, calls / n]),
        "way": AHEAD * hosts / n,
        "deepest": float(depths_of(costs)[1]),
    }


def depths_of(costs: Costs) -> tuple[int, int]:
    """Batches in flight of a lane, at the least and at the most: as many as somebody has said, if anybody has."""
    return (DEPTH, DEEPEST) if costs.depth is None else (costs.depth, costs.depth)


def wire_s(costs: Costs, pool: Pool) -> float:
    """Busy seconds per byte sent or received; a GPU's worker does that beside its kernels."""
    return 0.0 if pool.kind == "gpu" else costs.rates(pool).wire_s_per_byte * costs.crowding(pool)


def _moved(costs: Costs) -> float:
    """Bytes of a batch that come from shard hosts and go to them, at the least."""
    return sum(layer.row_bytes for layer in costs.layers.layers) + 4.0 * costs.dense_size


def _hosts_s(costs: Costs, server: Pool) -> float:
    """Seconds that pass while shard hosts, one for each replica, serve and apply a batch, at the least."""
    rates = costs.rates(server)
    rows = [op.type.shape[0] * costs.batch_size * costs.layers.unique_fraction for op in costs.pulls]
    worked = sum(map(rates.pull, rows)) + sum(map(rates.push, rows)) + rates.dense(costs.dense_size)
    sent = _moved(costs) + sum(layer.cost.parameter_bytes for layer in costs.layers.layers)
    worked += costs.creating_s(rates) + sent * rates.wire_s_per_byte
    return worked * costs.crowding(server) / costs.replicas


def comes_first(costs: Costs) -> bool:
    """Whether the first Layer reads, and all others come after it."""
    first, reached = costs.layers.layers[0], {0}
    for edge in sorted(costs.layers.edges, key=lambda edge: (edge.source, edge.target)):
        reached |= {edge.target} if edge.source in reached else set()
    reads = any(costs.lowered.kind(costs.lowered[name]).access == "file" for name in first.ops)
    return reads and len(reached) == len(costs.layers.layers)


def with_in_flight(problem: Problem, each: float) -> Problem:
    """Return the problem with at least so many batches in flight for each row per second, wherever Layers run."""
    return replace(problem, way_from=each)
