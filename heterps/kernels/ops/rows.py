"""Pulled rows to positions: gather with pooling, and its backward, the scatter-add by unique row.

Backward adds positions in the order of the batch, so equal input gives equal bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from heterps.device.arrays import Array
from heterps.graph.types import Form
from heterps.kernels.cost import OpCost, OpWork, read_only
from heterps.kernels.kernel import Call, Kernel, register_kernel
from heterps.kernels.ops.lookup_numbers import POOLINGS, even_offsets, padding_row, run_lookups
from heterps.kernels.ops.pointwise import flat_rows
from heterps.kernels.ops.row_loops import gather, pool_max, scatter, unpool_max
from heterps.kernels.ops.rows_cuda import cuda_rows, gather_cuda, scatter_cuda

__all__ = ["Lists", "Rows"]


class Lists(NamedTuple):
    """A ragged tensor inside a program: list i of the batch is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Array
    offsets: Array


@dataclass(frozen=True, eq=False)
class Rows:
    """The value of a ``pull``: the unique rows of a batch and where they go.

    Parameters
    ----------
    values
        ``[unique, width]``.
    inverse
        Per id column of the pull (in the order of ``op.inputs``) the row of each position, int32, ``[n]``,
        ``[n, slots]`` or, for ragged ids, ``[elements]``. A negative row is padding.
    offsets
        Per id column the ``n + 1`` offsets of ragged ids, None for fixed slots. May be left out if nothing is ragged.
    ids
        The unique ids in the order of ``values``, uint64. Needed only by lookups with a padding id that the inverse
        does not mark.
    """

    values: Array
    inverse: tuple[Array, ...]
    offsets: tuple[Array | None, ...] = ()
    ids: Array | None = None
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)  # what gathers of one batch share

    def offsets_of(self, source: int) -> Array | None:
        """Offsets of one id column; None means fixed slots."""
        return self.offsets[source] if self.offsets else None


class Gathering(NamedTuple):
    """What both directions of one gather need, read once from the call."""

    values: Array
    low: int
    dim: int
    inverse: Array
    offsets: Array | None
    pad: int
    pooling: str


def _gathering(c: Call) -> Gathering:
    rows: Rows = c.xs[0]
    source, (low, high) = c.attrs["source"], c.attrs["columns"]
    inverse = rows.inverse[source]
    pad = -1 if c.attrs["padding_id"] is None else padding_row(c, rows)
    flat = inverse if inverse.ndim == 1 else inverse.reshape(-1)
    return Gathering(rows.values, low, high - low, flat, rows.offsets_of(source), pad, c.attrs["pooling"])


def _offsets(c: Call, g: Gathering) -> Array:
    """Offsets of the lists to pool; those of fixed slots are made once."""
    if g.offsets is not None:
        return g.offsets
    slots = g.inverse.shape[0] // max(c.n, 1)
    return even_offsets(c.xp, c.n, slots)


def gather_pool_forward(c: Call) -> None:
    """Rows to positions, pooled."""
    g = _gathering(c)
    y = _target(c, g)
    if not c.loops:
        _gather_on_device(c, g, y)
    elif g.pooling == "max":
        winner = c.scratch("winner", (c.n, g.dim), np.int32)
        pool_max(g.values, g.low, g.dim, g.inverse, _offsets(c, g), g.pad, winner, *flat_rows(y))
    else:
        run_lookups(gather, g.values, [c], [y])


def gather_pool_backward(c: Call) -> None:
    """Gradients of positions added up per row."""
    gradient = c.dxs[0]
    if gradient is None:
        return
    g = _gathering(c)
    dy = c.dy.values if isinstance(c.dy, Lists) else c.dy
    if not c.loops:
        _scatter_on_device(c, g, gradient, dy)
    elif g.pooling == "max":
        unpool_max(gradient, g.low, g.dim, c.scratch("winner", (c.n, g.dim), np.int32), *flat_rows(dy))
    else:
        run_lookups(scatter, gradient, [c], [dy])


def gathers_forward(calls: Sequence[Call]) -> None:
    """Several neighbouring gathers, those of one pull at a time."""
    for some in _by_pull(calls):
        if all(map(_can_join, some)):
            run_lookups(gather, some[0].xs[0].values, some, [c.y for c in some])
        else:
            for c in some:
                gather_pool_forward(c)


def gathers_backward(calls: Sequence[Call]) -> None:
    """The same back, in the order given."""
    for some in _by_pull(calls):
        gradient = some[0].dxs[0]
        if gradient is not None and all(map(_can_join, some)):
            run_lookups(scatter, gradient, some, [c.dy for c in some])
        else:
            for c in some:
                gather_pool_backward(c)


def _by_pull(calls: Sequence[Call]) -> list[list[Call]]:
    return [list(some) for _, some in groupby(calls, key=lambda c: id(c.xs[0]))]


def _can_join(c: Call) -> bool:
    """Whether a loop over several lookups can do it: where results have a fixed size, and are no largest values."""
    return c.loops and c.attrs["pooling"] in POOLINGS and isinstance(c.y, np.ndarray)


def _gather_on_device(c: Call, g: Gathering, y: Array) -> None:
    """Through ``rows.cu`` where the device runs it, else with array functions."""
    module = cuda_rows(c, g.values)
    if module is None:
        _gather_arrays(c, g, y)
    else:
        gather_cuda(c, module, g, _offsets(c, g), y)


def _scatter_on_device(c: Call, g: Gathering, gradient: Array, dy: Array) -> None:
    module = cuda_rows(c, gradient)
    if module is None:
        _scatter_arrays(c, g, gradient, dy)
    else:
        scatter_cuda(c, module, g, _offsets(c, g), gradient, dy)


def _target(c: Call, g: Gathering) -> Array:
    """Where the gathered rows go. Unpooled lists have no fixed size: their buffer belongs to this op."""
    if g.offsets is None or g.pooling != "none":
        return c.y
    values = c.scratch("values", (g.inverse.shape[0], g.dim), g.values.dtype)
    c.y = Lists(values, g.offsets)
    return values


def _gather_arrays(c: Call, g: Gathering, y: Array) -> None:
    """Gather with whole-array functions, for devices and for comparison."""
    xp = c.xp
    taken = xp.take(g.values[:, g.low : g.low + g.dim], xp.maximum(g.inverse, 0), axis=0)
    keep = _kept(g)
    if g.pooling == "none":
        y[...] = xp.where(keep, taken, 0).reshape(y.shape)
        return
    sample, y = _sample_of(c, g), y.reshape(c.n, g.dim)  # a fused sum may have left out the last axis
    if g.pooling == "max":
        y[...] = _max_arrays(c, g, taken, keep, sample)
        return
    y[...] = 0
    xp.add.at(y, sample, xp.where(keep, taken, 0))
    if g.pooling == "mean":
        y /= _counts(c, keep, sample)


def _kept(g: Gathering) -> Array:
    """Which positions are not padding, as a column."""
    return ((g.inverse >= 0) & (g.inverse != g.pad))[:, None]


def _sample_of(c: Call, g: Gathering) -> Array:
    """Which sample each position belongs to."""
    xp, offsets = c.xp, _offsets(c, g)
    return xp.searchsorted(offsets, xp.arange(g.inverse.shape[0]), side="right") - 1


def _counts(c: Call, keep: Array, sample: Array) -> Array:
    counts = c.xp.zeros((c.n, 1), c.y.dtype)
    c.xp.add.at(counts, sample, keep.astype(c.y.dtype))
    return c.xp.maximum(counts, 1)


def _max_arrays(c: Call, g: Gathering, taken: Array, keep: Array, sample: Array) -> Array:
    """Maximum per list, and the first position that has it, as a row number per column."""
    xp = c.xp
    top = xp.full((c.n, g.dim), -xp.inf, taken.dtype)
    xp.maximum.at(top, sample, xp.where(keep, taken, -xp.inf))
    positions = xp.arange(taken.shape[0], dtype=xp.int32)[:, None]  # devices have no 64-bit signed atomics
    none = taken.shape[0]
    candidates = xp.where(keep & (taken == xp.take(top, sample, axis=0)), positions, xp.int32(none))
    first = xp.full((c.n, g.dim), none, xp.int32)
    xp.minimum.at(first, sample, candidates)
    winner = c.scratch("winner", (c.n, g.dim), xp.int32)
    safe = xp.minimum(first, max(none - 1, 0))
    winner[...] = xp.where(first < none, xp.take(g.inverse, safe), -1) if none else -1
    return xp.where(winner >= 0, top, 0)


def _scatter_arrays(c: Call, g: Gathering, gradient: Array, dy: Array) -> None:
    """Scatter-add with whole-array functions."""
    xp = c.xp
    columns = gradient[:, g.low : g.low + g.dim]
    if g.pooling == "max":
        winner = c.scratch("winner", (c.n, g.dim), xp.int32)
        row = xp.maximum(winner, 0)
        which = xp.broadcast_to(xp.arange(g.dim), winner.shape)
        xp.add.at(columns, (row, which), xp.where(winner >= 0, dy, 0))
        return
    keep = _kept(g)
    if g.pooling == "none":
        parts = dy.reshape(-1, g.dim)
    else:
        sample, whole = _sample_of(c, g), dy.reshape(c.n, g.dim)
        whole = whole / _counts(c, keep, sample) if g.pooling == "mean" else whole
        parts = xp.take(whole, sample, axis=0)
    xp.add.at(columns, xp.maximum(g.inverse, 0), xp.where(keep, parts, 0))


def gather_cost(work: OpWork) -> OpCost:
    """Rows read once per position, results written; backward reads gradients and adds to rows."""
    ids, out = work.inputs[1], work.bytes(work.output)
    positions = work.batch * ids.size
    low, high = work.attrs["columns"]
    moved = 4.0 * positions * (high - low)
    pooled = 0.0 if work.attrs["pooling"] == "none" else positions * (high - low)
    index = 4.0 * positions
    return OpCost(positions * (high - low) + pooled, 2 * moved + out + 2 * index, out + moved)


def pull_cost(work: OpWork) -> OpCost:
    """Unique rows read and sent, their gradients added and written back."""
    positions, width = work.output.shape
    ids = work.bytes(*work.inputs)
    moved = 4.0 * work.batch * positions * work.unique_fraction * width
    return OpCost(0.0, 2 * moved + ids, 2 * moved)


def lookup_cost(work: OpWork) -> OpCost:
    """A pull and a gather in one."""
    dim, ids = work.attrs["dim"], work.inputs[0]
    rows = 4.0 * work.numbers(ids) * dim
    out = work.bytes(work.output)
    moved = rows * work.unique_fraction
    pooled = 0.0 if work.output.form is Form.RAGGED or work.attrs["pooling"] == "none" else rows / 4
    return OpCost(rows / 4 + pooled, 2 * moved + 2 * rows + out + work.bytes(ids), 2 * moved + rows + out)


register_kernel("input", Kernel(read_only))
register_kernel("lookup", Kernel(lookup_cost))
register_kernel("pull", Kernel(pull_cost))
register_kernel(
    "gather_pool",
    Kernel(
        gather_cost,
        gather_pool_forward,
        gather_pool_backward,
        strided=2,
        unread=(1,),
        together=(gathers_forward, gathers_backward),
    ),
)
