"""What travels beside the protocol's headers: ids and rows, gradients.

In one process payloads are passed as they are, buffers included. Between processes they become the arrays of a message
(:mod:`heterps.runtime.wire.packing`). A buffer given to a call belongs to the receiver until the reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from heterps.tables import RowGradients

__all__ = ["Pulled", "PushedGradients", "Wanted"]

F32 = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]


@dataclass(eq=False)
class Wanted:
    """What a Pull asks one host for.

    ``ids`` by group, each id once; ``out`` where the rows go (a buffer of the caller's, made by the receiver if None);
    ``dense`` where the host's dense parameters go, None if they are not wanted.
    """

    ids: Mapping[str, U64]
    out: Mapping[str, F32] = field(default_factory=dict)
    dense: F32 | None = None
    train: bool = True


@dataclass(eq=False)
class Pulled:
    """Answer to Wanted: rows by group, where they stand (a hint for the push), and the host's version."""

    values: Mapping[str, F32]
    rows: Mapping[str, U32]
    version: int
    dense: F32 | None = None


@dataclass(eq=False)
class PushedGradients:
    """What a Push brings one host: summed row gradients by group, a flat dense gradient, and what to count.

    ``kept`` are seeds of batches of which a stage has left dense gradients with the host: they belong to this push.
    """

    rows: Mapping[str, RowGradients]
    dense: F32 | None = None
    samples: int = 0
    loss: float = 0.0
    kept: tuple[int, ...] = ()
