"""The simulated tables, and what they must be in the end.

A shard has a value that depends on the order and the bits of everything ever applied, and a count per batch key. A
gradient depends on all values it was computed from. So a step computed from the wrong rows, or summed in another
order, or applied twice, changes the value for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from heterps.protocol import BatchKey, RunSpec

__all__ = ["SimulatedShard", "gradient", "keys_of", "sync_values"]


class SimulatedShard:
    """One logical shard of all tables: rows, in a word."""

    __slots__ = ("counts", "loaded", "notes", "value")

    def __init__(
        self, value: int = 0, counts: Mapping[BatchKey, int] | None = None, notes: int = 0, loaded: int = 0
    ) -> None:
        self.value = value
        self.loaded = loaded  # which return to a cut it comes from: another number means another course of things
        self.notes = notes  # how often somebody else than a batch has changed it, while the run rested
        self.counts: dict[BatchKey, int] = dict(counts or ())

    def copy(self) -> SimulatedShard:
        """Return an independent copy."""
        return SimulatedShard(self.value, self.counts, self.notes, self.loaded)

    def apply(self, grads: Sequence[tuple[BatchKey, int]]) -> None:
        """Apply the sum of gradients as one step."""
        self.value = hash((self.value, *(grad for _, grad in grads)))
        for key, _ in grads:
            self.counts[key] = self.counts.get(key, 0) + 1


def gradient(key: BatchKey, values: Iterable[tuple[int, int]]) -> int:
    """Return the gradient of a batch from the values of all shards (number, value)."""
    return hash((key, *sorted(values)))


def keys_of(splits: Sequence[int], passes: int) -> dict[BatchKey, int]:
    """Return the counts that every shard must have in the end."""
    return {BatchKey(p, s, n): 1 for p in range(passes) for s, count in enumerate(splits) for n in range(count)}


def sync_values(spec: RunSpec, splits: Sequence[int]) -> list[int]:
    """Return the value of every shard after an undisturbed Sync run, computed in the plainest way."""
    shards = [SimulatedShard() for _ in range(spec.shards + spec.group)]  # the group's parameters are one shard more
    for pass_ in range(spec.passes):
        streams = [
            [BatchKey(pass_, s, n) for s in range(lane, len(splits), spec.lanes) for n in range(splits[s])]
            for lane in range(spec.lanes)
        ]
        for step in range(max(map(len, streams))):
            values = [(number, shard.value) for number, shard in enumerate(shards)]
            keys = [stream[step] for stream in streams if step < len(stream)]
            grads = [(key, gradient(key, values)) for key in keys]
            for shard in shards:
                shard.apply(grads)
    return [shard.value for shard in shards]
