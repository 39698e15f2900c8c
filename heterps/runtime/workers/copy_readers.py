"""Workers that keep rows of their own, as a shard host sees them: each answer tells them what others changed."""

from __future__ import annotations

from collections.abc import Collection

from heterps.runtime.batch.payload import Refreshed
from heterps.tables import Moment, Shard, begin_following, changes_since, stop_following

__all__ = ["CopyReaders"]


class CopyReaders:
    """Names of those who read the changes of one host's tables.

    Parameters
    ----------
    groups
        Which row groups workers keep; None: all, and the dense parameters.
    """

    def __init__(self, groups: Collection[str] | None = None) -> None:
        self._groups = groups
        self.names: set[str] = set()  # registered with the tables; those of a trainer begin with its number and "/"

    def begin(self, shard: Shard, reader: str) -> Moment:
        """Return the moment from which a reader can be told what changed."""
        self.names.add(reader)
        return begin_following(shard, reader, self._groups)

    def refreshed(self, shard: Shard, reader: str, since: Moment | None) -> Refreshed:
        """Say what changed since a reader last heard, its own changes included."""
        version = shard.version  # before the values: newer ones under an old version do no harm
        found = None if since is None else changes_since(shard, reader, since)
        moment, rows = found or (self.begin(shard, reader), {})
        return Refreshed(rows, version, moment, found is not None, shard.pull_dense() if self._groups is None else None)

    def dismiss(self, shard: Shard | None, trainer: int | None = None) -> None:
        """Forget the readers of a trainer, or all."""
        for name in [name for name in self.names if trainer is None or name.startswith(f"{trainer}/")]:
            self.names.discard(name)
            if shard is not None:
                stop_following(shard, name)
