"""Where the parameters are: which copy of each host answers, under which term, and which shards it owns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heterps.errors import PlanError

__all__ = ["Layout", "deal_shards", "owned_by"]


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
    group
        Term of the all-reduce group; None where there is none. To a client it is one more host, behind all others,
        which it reaches through its lane's home: the member in its own process, or with stages the one where its
        batches are computed.
    """

    version: int
    copies: tuple[int, ...]
    terms: tuple[int, ...]
    owners: tuple[int, ...]
    stages: tuple[str, ...] | None = None
    group: int | None = None

    @property
    def holders(self) -> tuple[int, ...]:
        """Terms of all who hold parameters: the hosts, then the group."""
        return self.terms if self.group is None else (*self.terms, self.group)

    def home(self, lane: int) -> str:
        """Return the stage worker that a lane computes on where the group's members are stage workers; "" for none.

        The same under one term of the group: whoever comes or goes makes another.
        """
        stages = self.stages or ()
        return stages[lane % len(stages)] if stages else ""

    def owned(self, host: int) -> tuple[int, ...]:
        """Return the shards of a host, in order."""
        return owned_by(self.owners, host)


def deal_shards(shards: int, hosts: int) -> tuple[int, ...]:
    """Return the owner of each shard: contiguous ranges of nearly equal size. The only place that deals them."""
    if not 1 <= hosts <= shards:
        raise PlanError(f"{shards} logical shards cannot be dealt to {hosts} hosts: each needs at least one")
    return tuple(shard * hosts // shards for shard in range(shards))


def owned_by(owners: Sequence[int], host: int) -> tuple[int, ...]:
    """Return the shards of a host, in order."""
    return tuple(shard for shard, owner in enumerate(owners) if owner == host)
