"""A small run of rows that go up to a device and come down again, against the loops of the hosts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Namespace
from heterps.device.compare import same
from heterps.errors import HardwareError
from heterps.protocol import BatchKey
from heterps.tables.live.gradients import RowGradients
from heterps.tables.live.shard import KeyedShard
from heterps.tables.on_device.device_group import DeviceGroup
from heterps.tables.on_device.device_rows import device_bytes
from heterps.tables.on_device.host_rows import take_words
from heterps.tables.specs.initialisers import Normal, Uniform
from heterps.tables.specs.rules import FTRL, Adam
from heterps.tables.specs.spec import GroupSpec, TableSpec

__all__ = ["check_device_group"]

F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]

GROUP = GroupSpec(
    "risen",
    (TableSpec("a", 3, Adam(lr=0.1), Normal(0.3)), TableSpec("b", 2, FTRL(lr=0.1), Uniform(0.1))),
    n_shards=4,
    storage="gpu",
)
#: Ids of a batch at most, of the whole run, and rows that there is room for: the table is built anew again and again,
#: and some batches have more ids than fit.
BATCH, IDS, ROOM, BATCHES = 9, 20, 8, 16


class _Seen(NamedTuple):
    """What was pulled batch by batch, read in the middle without training, and left in the end."""

    pulled: list[Any]
    read: F32
    words: F32
    skipped: int


def check_device_group(xp: Namespace, *, exact: bool = True) -> None:
    """Values, slots and counts of rows that are trained on the device, whatever has come down meanwhile."""

    def on_gpu(below: Any) -> DeviceGroup:
        return DeviceGroup(below, xp=xp, limit=device_bytes(GROUP, ROOM))

    there, here = KeyedShard([GROUP], seed=7, on_gpu=on_gpu), KeyedShard([GROUP], seed=7)
    got, expected = _trained(there), _trained(here)
    ulps = 0 if exact else 64
    for batch, (values, wanted) in enumerate(zip(got.pulled, expected.pulled, strict=True)):
        same(f"rows on the device, values of batch {batch}", values, wanted, ulps=ulps)
    same("rows on the device, read while they are trained", got.read, expected.read, ulps=ulps)
    same("rows on the device, values and slots in the end", got.words, expected.words, ulps=ulps)
    _check_counts(there, got.skipped, expected.skipped)


def _check_counts(shard: KeyedShard, skipped: int, expected: int) -> None:
    above = shard.above[GROUP.name]
    if skipped != expected:
        raise HardwareError(f"rows on the device: {skipped} gradients were left out, expected {expected}")
    if not above.turns or len(above) > ROOM:
        raise HardwareError(f"rows on the device: {len(above)} where {ROOM} fit, after {above.turns} turns")
    few = np.arange(BATCH, dtype=np.uint64)
    shard.pull(GROUP.name, few)
    for gradients, expected in ((None, 0), (np.ones((BATCH, GROUP.width), np.float32), BATCH), (None, 0)):
        before = above.fallen
        if gradients is not None:
            shard.push(BatchKey(1, 0, 0), {GROUP.name: RowGradients(few, gradients)})
        above.settle()
        if above.fallen - before != expected:
            raise HardwareError(f"rows on the device: {above.fallen - before} came down where {expected} were changed")


def _trained(shard: KeyedShard) -> _Seen:
    """Train with one batch ahead: where it makes the table turn, what was found for the batch before is of no use."""
    rng, pulled, skipped = np.random.default_rng(4), [], 0
    every, read = np.arange(IDS, dtype=np.uint64), np.empty(0, np.float32)
    batches = [np.sort(rng.choice(every, rng.integers(1, BATCH + 1), replace=False)) for _ in range(BATCHES)]
    ahead = [shard.pull(GROUP.name, batches[0])]
    for n, ids in enumerate(batches):
        ahead += [shard.pull(GROUP.name, more) for more in batches[n + 1 : n + 2]]
        values, hint, _ = ahead.pop(0)
        pulled.append(values)
        gradients = rng.standard_normal((len(ids), GROUP.width)).astype(np.float32)
        if n in (1, BATCHES // 3):
            gradients[0, 1] = np.nan
        skipped += shard.push(BatchKey(0, 0, n), {GROUP.name: RowGradients(ids, gradients, hint)}).skipped
        if n == BATCHES // 2:
            read = shard.pull(GROUP.name, every, train=False).values
    return _Seen(pulled, read, take_words(shard.group(GROUP.name), every), skipped + shard.take_skipped())
