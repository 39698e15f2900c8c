"""What a worker owes the shard hosts for a unit of batches, made once and sent as often as it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heterps.tables import OwedRows, RowGradients
from heterps.tables.hashing import shards_of

__all__ = ["Learned", "Settlement"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass
class Learned:
    """What a unit of batches has come to so far."""

    samples: int = 0
    loss: float = 0.0
    skipped: int = 0


@dataclass(frozen=True, eq=False)
class Settlement:
    """What is owed for a unit, and to which host each row belongs."""

    rows: Mapping[str, OwedRows]
    hosts: Mapping[str, I64]
    dense: F32
    learned: Learned

    @classmethod
    def of(cls, rows: Mapping[str, OwedRows], owners: I64, dense: F32, learned: Learned) -> Settlement:
        """Find the hosts of rows; ``owners`` are those of logical shards."""
        hosts = {name: owners[shards_of(owed.ids, len(owners))] for name, owed in rows.items()}
        return cls(rows, hosts, dense, learned)

    def rows_of(self, host: int, version: int | None, counted: set[str]) -> dict[str, RowGradients]:
        """Return a host's share; shows and clicks of the groups that count them."""
        return {
            name: _share(owed, self.hosts[name] == host, version, counted=name in counted)
            for name, owed in self.rows.items()
        }

    def learned_at(self, host: int) -> Learned:
        """Return what a host is to count: the first one counts for all."""
        return self.learned if host == 0 else Learned()


def _share(owed: OwedRows, mine: npt.NDArray[np.bool_], version: int | None, *, counted: bool) -> RowGradients:
    show, click = (owed.show[mine], owed.click[mine]) if counted else (None, None)
    return RowGradients(owed.ids[mine], owed.values[mine], show=show, click=click, version=version)
