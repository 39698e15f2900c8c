"""Small runs of every kernel for rows on a device against the loops of the hosts; see :mod:`heterps.kernels.checks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Namespace, to_device
from heterps.device.compare import same
from heterps.errors import HardwareError
from heterps.tables.hashing import RESERVED
from heterps.tables.live.dense import DenseBlock
from heterps.tables.live.gradients import RowGradients
from heterps.tables.live.group import RowGroup
from heterps.tables.on_device.cache_check import check_device_cache
from heterps.tables.on_device.dedupe import distinct
from heterps.tables.on_device.device_dense import DeviceDense
from heterps.tables.on_device.device_rows import DeviceRows
from heterps.tables.on_device.group_check import check_device_group
from heterps.tables.specs.initialisers import Normal, Uniform
from heterps.tables.specs.rules import (
    FTRL,
    SGD,
    AdaGrad,
    Adam,
    ElementAdaGrad,
    Momentum,
    RowWiseAdaGrad,
    Rule,
    SharedAdam,
    StdAdaGrad,
    Sum,
)
from heterps.tables.specs.spec import DenseSpec, GroupSpec, TableSpec

__all__ = ["BUILT_IN", "CHECKS"]

F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]

#: Every built-in rule, with numbers that take each of its branches.
BUILT_IN: tuple[Rule, ...] = (
    SGD(lr=0.1, bounds=(-0.05, 0.07)),
    AdaGrad(lr=0.1),
    StdAdaGrad(lr=0.1, show_scale=False),
    ElementAdaGrad(lr=0.1, initial=0.2),
    RowWiseAdaGrad(lr=0.1),
    Adam(lr=0.1),
    SharedAdam(lr=0.1),
    FTRL(lr=0.1, l1=0.3, l2=0.1),
    Momentum(lr=0.1, l2=0.01),
    Sum(),
)
#: Ids of three batches: repeated ones, a zero, neighbours, the largest there is, and enough to make tables grow.
BATCHES: tuple[U64, ...] = (
    np.array([7, 3, 7, 2**64 - 2, 0, 3, 7], np.uint64),
    np.arange(40, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) // np.uint64(3),
    np.array([3, 11, 12, 13, 7, 0, 11], np.uint64),
)


def group_of(*rules: Rule, dims: tuple[int, ...] = (11,)) -> GroupSpec:
    """Return a group with a table per rule."""
    tables = [TableSpec(f"t{k}", dims[k % len(dims)], rule, Uniform(0.05)) for k, rule in enumerate(rules)]
    return GroupSpec("checked", tuple(tables), n_shards=4)


def gradients_of(batch: int, width: int) -> F32:
    """Return a gradient for each position of a batch; one of the second batch is not a number."""
    values = np.random.default_rng(batch).standard_normal((len(BATCHES[batch]), width)).astype(np.float32)
    if batch == 1:
        values[5, width - 1], values[6, 0] = np.nan, -np.inf
    return values


class _Trained(NamedTuple):
    """What was pulled batch by batch, and ids, values and slots, rows left out in the end."""

    pulled: list[Any]
    ids: U64
    words: F32
    skipped: int


def train_on_host(group: GroupSpec, seed: int) -> _Trained:
    """Return what the loops make of the batches."""
    rows, skipped, pulled = RowGroup(group, seed=seed, owned=range(group.n_shards)), 0, []
    for step, ids in enumerate(BATCHES):
        ours = distinct(np, ids)
        merged = np.zeros((len(ours), group.width), np.float32)
        values = gradients_of(step, group.width)
        for k in range(len(ours)):
            for p in ours.order[ours.starts[k] : ours.starts[k + 1]]:
                merged[k] += values[p]
        shows = np.bincount(ours.inverse).astype(np.float32)
        pulled.append(rows.pull(ours.ids, train=True)[0])
        skipped += rows.push(RowGradients(ours.ids, merged, show=shows), step=step).skipped
    every = np.unique(np.concatenate(BATCHES))
    at = rows.find(every).astype(np.int64)
    words = rows.only.words.reshape(-1, rows.layout.stride)[at].view(np.float32)
    return _Trained(pulled, every, words[:, 2 : 2 + rows.layout.width + rows.layout.slots].copy(), skipped)


def train_on_device(group: GroupSpec, seed: int, xp: Namespace, rows: int) -> _Trained:
    """Return what the device makes of the same batches, starting with room for some rows."""
    table, skipped, pulled = DeviceRows(group, seed=seed, xp=xp, rows=rows), [], []
    for step, ids in enumerate(BATCHES):
        there = to_device(ids, xp)
        shows = xp.ones(len(ids), np.float32)
        pulled.append(table.pull(there, train=True)[0])
        gradients = to_device(gradients_of(step, group.width), xp)
        skipped.append(table.push(there, gradients, step=step, shows=shows))
    entered = int((table._keys != np.uint64(RESERVED)).sum())
    if entered != len(table):
        raise HardwareError(f"device_rows.cu: {entered} places of the index are taken by {len(table)} ids")
    return _Trained(pulled, *table.save(), sum(int(n[0]) for n in skipped))


def check_device_rows(xp: Namespace) -> None:
    """``device_rows.cu``: index, growth, merging and every rule, bit for bit those of the loops."""
    for rule in BUILT_IN:
        group = group_of(rule)
        what = f"device_rows.cu, {type(rule).__name__}"
        _compare(what, train_on_device(group, 9, xp, rows=1), train_on_host(group, 9))
    many = group_of(*BUILT_IN, dims=(1, 8, 3))
    _compare("device_rows.cu, ten tables", train_on_device(many, 4, xp, rows=300), train_on_host(many, 4))
    _check_crowded(xp)
    _check_reading(xp)
    _check_normal(xp)
    _check_dense(xp)
    check_device_group(xp)
    check_device_cache(xp)


def _check_crowded(xp: Namespace) -> None:
    """An index without a free place: every id is found, one more is refused, none is read beyond the end."""
    table = DeviceRows(group_of(Sum()), seed=1, xp=xp, rows=1)
    keys, places = xp.full(64, RESERVED, np.uint64), xp.zeros(64, np.int32)
    ids, rows = np.append(np.arange(65), np.full(8, -1)).astype(np.uint64), np.arange(65, dtype=np.int32)
    counts, got, mask = xp.zeros(3, np.int32), xp.empty(73, np.int32), np.uint64(63)
    head = (keys, places, mask, to_device(ids, xp))  # one id too many, and eight that are reserved
    table._kernels.launch("insert_ids", 64, (*head, to_device(rows, xp), counts, np.int64(64)))
    same("device_rows.cu, a full index", counts, np.zeros(3, np.int32))
    table._kernels.launch("find_rows", 73, (*head, got, counts, np.int64(73)))
    same("device_rows.cu, rows of a full index", got, np.append(rows[:64], np.full(9, -1, np.int32)))
    one_more = (keys, places, mask, head[3][64:65], to_device(rows[64:], xp), counts, np.int64(1))
    table._kernels.launch("insert_ids", 1, one_more)
    same("device_rows.cu, one id too many", counts, np.array([9, 8, 1], np.int32))


def _compare(what: str, got: _Trained, expected: _Trained) -> None:
    for batch, (values, wanted) in enumerate(zip(got.pulled, expected.pulled, strict=True)):
        same(f"{what}, values of batch {batch}", values, wanted)
    same(f"{what}, ids", got.ids, expected.ids)
    same(f"{what}, values and slots", got.words, expected.words)
    if got.skipped != expected.skipped:
        raise HardwareError(f"{what}: {got.skipped} gradients were left out, expected {expected.skipped}")


def _check_reading(xp: Namespace) -> None:
    """Unknown ids read as zeros and get no row; numbers of rows do not depend on the order of threads."""
    table = DeviceRows(group_of(Sum()), seed=1, xp=xp, rows=4)
    ids = to_device(BATCHES[0], xp)
    values, found, rows = table.pull(ids, train=False)
    same("device_rows.cu, unknown ids", values, np.zeros((4, 11), np.float32))
    same("device_rows.cu, rows of unknown ids", rows, np.full(4, -1, np.int32))
    same("device_rows.cu, distinct ids", found.ids, np.unique(BATCHES[0]))
    same("device_rows.cu, where they stood", xp.take(found.ids, found.inverse), BATCHES[0])
    rows = table.pull(ids, train=True)[2]
    same("device_rows.cu, numbers of new rows", rows, np.arange(4, dtype=np.int32))


def _check_normal(xp: Namespace) -> None:
    """Normal first values go through log, cos and sin, which libraries round differently: one ulp."""
    table = TableSpec("n", 5, Sum(), Normal(0.5))
    group = GroupSpec("normal", (table,), n_shards=1)
    there = DeviceRows(group, seed=3, xp=xp)
    ids = np.unique(BATCHES[1])
    expected: Any = RowGroup(group, seed=3, owned=[0]).pull(ids, train=True)[0]
    same("device_rows.cu, normal first values", there.pull(to_device(ids, xp), train=True)[0], expected, ulps=1)


def _check_dense(xp: Namespace) -> None:
    """Every rule on dense parameters, one gradient not finite: bit for bit those of the loops."""
    specs = [DenseSpec(f"{type(rule).__name__}.{k}", (3, 11), rule) for k, rule in enumerate(BUILT_IN)]
    here, there = DenseBlock(specs, seed=5), DeviceDense(specs, seed=5, xp=xp)
    rng, left_out = np.random.default_rng(3), 0
    for step in range(3):
        gradient = rng.standard_normal(len(here)).astype(np.float32)
        gradient[40 * step] = np.nan
        left_out += here.push(gradient, step=step)
        there.push(to_device(gradient, xp), step=step)
    same("device_rows.cu, dense values", there.values, here.values)
    same("device_rows.cu, dense slots", there.slots, here.slots)
    if there.take_skipped() != left_out:
        raise HardwareError(f"device_rows.cu: {left_out} rows of dense parameters were to be left out")


#: File name of a source to the check of its kernels.
CHECKS: dict[str, Callable[[Namespace], None]] = {"device_rows.cu": check_device_rows}
