"""Where the parameters are: which copy of each host answers, under which term, and which shards it owns."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Layout", "deal_shards"]


class Layout(NamedTuple):
    """What a client must know to reach every shard. A greater version replaces a smaller one.

    Attributes
    ----------
    version
        Grows with every change.
    copies
        Per host, the copy that answers (an actor that :class:`~heterps.protocol.words.instructions.CreateHost` made).
    terms
        Per host, the term its copy must have. Requests carry it, replies repeat it.
    owners
        Per logical shard, the host that owns it.
    stages
        Compute workers whose stage actors are ready; None where compute is fused with the IO stage.
    """

    version: int
    copies: tuple[int, ...]
    terms: tuple[int, ...]
    owners: tuple[int, ...]
    stages: tuple[str, ...] | None = None

    def owned(self, host: int) -> tuple[int, ...]:
        """Return the shards of a host, in order."""
        return tuple(shard for shard, owner in enumerate(self.owners) if owner == host)


def deal_shards(shards: int, hosts: int) -> tuple[int, ...]:
    """Return the owner of each shard: contiguous ranges of nearly equal size."""
    return tuple(shard * hosts // shards for shard in range(shards))
