"""From the ids of a batch to what each shard host is asked for: unique ids, grouped by host, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.addresses import addresses, places
from heterps.compiled import entry_loop
from heterps.errors import TableError
from heterps.lanes import prefetch_near
from heterps.tables.hashing import RESERVED, check_ids, mix
from heterps.tables.specs.spec import N_SHARDS

__all__ = ["RouteBuffers", "Routed", "Router"]

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
BLOCK = 64


@dataclass(frozen=True, eq=False)
class Routed:
    """The unique ids of a batch.

    ``ids[bounds[h]:bounds[h + 1]]`` are those of host ``h``; id ``i`` of the batch is ``ids[inverse[i]]``.
    Hosts' answers, one after another, are therefore rows that ``inverse`` points into.
    """

    ids: U64
    bounds: I64
    inverse: I32

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, host: int) -> U64:
        """Return the ids that a host is asked for."""
        return self.ids[self.bounds[host] : self.bounds[host + 1]]

    def counts(self) -> F32:
        """Return how often each unique id stands in the batch."""
        return np.bincount(self.inverse, minlength=len(self.ids)).astype(np.float32)


@entry_loop
def _dedupe(ids: U64, parts: I64, places: U32, unique: U64, inverse: I32) -> int:
    """Number the ids in order of first appearance; return how many there are, or -1 - i at a reserved id.

    ``parts`` says where ids begin, counted from ``ids[0]``, and where they end. ``places`` is a hash table of numbers,
    plus one, that is cleared here. Whether an id is new cannot be foreseen, so nothing branches on it: it stands behind
    those that are known, and an empty place leads to where it stands.
    """
    places[:] = 0
    mask, n, at = np.uint64(places.size - 1), np.uint64(0), np.uint64(0)
    homes = np.empty(BLOCK, np.uint64)
    for k in range(parts.shape[0]):
        for start in range(parts[k, 0], parts[k, 1], BLOCK):
            stop = min(start + BLOCK, parts[k, 1])
            for i in range(start, stop):
                homes[np.uint64(i - start)] = (mix(ids[np.uint64(i)]) >> np.uint64(32)) & mask
                prefetch_near(places, np.int64(homes[np.uint64(i - start)]))
            for i in range(start, stop):
                id_, place = ids[np.uint64(i)], homes[np.uint64(i - start)]
                if id_ == np.uint64(RESERVED):
                    return -1 - np.int64(at)  # type: ignore[return-value]
                unique[n] = id_
                while True:
                    entry = np.uint64(places[place])
                    new = entry == np.uint64(0)
                    number = n if new else entry - np.uint64(1)
                    if unique[number] == id_:
                        break
                    place = (place + np.uint64(1)) & mask
                places[place] = np.uint32(number + np.uint64(1))
                inverse[at] = number
                n += np.uint64(new)
                at += np.uint64(1)
    return np.int64(n)  # type: ignore[return-value]


@entry_loop
def _by_host(found: U64, host_of: I32, bounds: I64, moved: I32, inverse: I32, out: U64) -> None:
    """Group unique ids by host (stable) and let ``inverse`` point to their new places."""
    shards = np.uint64(host_of.size)
    bounds[:] = 0
    for i in range(found.size):
        host = host_of[np.int64(mix(found[i]) % shards)]
        moved[i] = host
        bounds[host + 1] += 1
    for h in range(1, bounds.size):
        bounds[h] += bounds[h - 1]
    for i in range(found.size):
        host = moved[i]
        moved[i] = bounds[host]
        out[bounds[host]] = found[i]
        bounds[host] += 1
    for h in range(bounds.size - 1, 0, -1):
        bounds[h] = bounds[h - 1]
    bounds[0] = 0
    for i in range(inverse.size):
        inverse[i] = moved[inverse[i]]


class RouteBuffers:
    """Where the results of routing lie. They belong to one batch at a time, from its routing until it is over:
    batches end in any order, so nobody but their owner knows when they can be used again.
    """

    def __init__(self) -> None:
        self.unique: U64 = np.empty(0, np.uint64)
        self.inverse: I32 = np.empty(0, np.int32)

    def reserve(self, n: int) -> None:
        """Have room for a batch of so many ids."""
        if len(self.unique) < n:
            self.unique, self.inverse = np.empty(n, np.uint64), np.empty(n, np.int32)


class Router:
    """Finds the unique ids of batches and the hosts that hold them.

    Parameters
    ----------
    host_of
        Host of each logical shard (see :func:`~heterps.protocol.words.layout.deal_shards`); None for one host.
    hosts
        How many there are, where the last ones own no shard.
    """

    def __init__(self, host_of: Sequence[int] | I32 | None = None, *, hosts: int = 0) -> None:
        self._host_of = np.zeros(N_SHARDS, np.int32) if host_of is None else np.asarray(host_of, np.int32)
        self._hosts = max(int(self._host_of.max()) + 1, hosts)
        self._places = np.zeros(1024, np.uint32)
        self._found = np.empty(0, np.uint64)
        self._moved = np.empty(0, np.int32)

    def route(self, ids: Any, buffers: RouteBuffers | None = None) -> Routed:
        """Return the unique ids of a batch (any shape; the inverse is flat), in buffers that are given or new."""
        return self.route_parts([np.asarray(ids).reshape(-1)], buffers)

    def route_parts(self, parts: Sequence[Any], buffers: RouteBuffers | None = None) -> Routed:
        """Return the same for ids that lie in several flat arrays, as if they were one behind the other."""
        ids = [_aligned(check_ids(part, "batch")) for part in parts]
        n_ids, buffers = sum(map(len, ids)), buffers or RouteBuffers()
        self._reserve(n_ids)
        buffers.reserve(n_ids)
        unique, inverse = buffers.unique, buffers.inverse[:n_ids]
        bounds = np.empty(self._hosts + 1, np.int64)
        found = unique if self._hosts == 1 else self._found
        n = self._dedupe(ids, found, inverse)
        if self._hosts > 1:
            _by_host(found[:n], self._host_of, bounds, self._moved, inverse, unique)
        else:
            bounds[:] = 0, n
        return Routed(unique[:n], bounds, inverse)

    def _dedupe(self, ids: Sequence[U64], found: U64, inverse: I32) -> int:
        begins = places(addresses(ids), ids[0].itemsize)
        parts = np.stack([begins, begins + np.fromiter(map(len, ids), np.int64, len(ids))], axis=1)
        n = int(_dedupe(ids[0], parts, self._places[: _room(len(inverse))], found, inverse))
        if n < 0:
            raise TableError(f"batch: the id at position {-1 - n} is 2**64 - 1, which is reserved")
        return n

    def _reserve(self, n: int) -> None:
        if _room(n) > len(self._places):
            self._places = np.zeros(_room(n), np.uint32)
        if self._hosts > 1 and len(self._found) < n:
            self._found, self._moved = np.empty(2 * n, np.uint64), np.empty(2 * n, np.int32)


def _aligned(ids: U64) -> U64:
    return ids if ids.flags.aligned else ids.copy()


def _room(n: int) -> int:
    """Return how many places so many ids have: a power of two, of which at most half are taken."""
    return max(1 << (2 * n).bit_length(), 1024)
