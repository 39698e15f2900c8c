"""What a shard host keeps of parameters that an all-reduce group trains.

Members take them from here when a run begins, and give them back when it rests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heterps.protocol.words.group import GroupState
from heterps.runtime.batch.payload import StoredDense
from heterps.runtime.wire.group_packing import pack_state
from heterps.runtime.wire.message import Message
from heterps.tables import DenseSpec, Shard

if TYPE_CHECKING:
    from heterps.protocol.words.group import Position

__all__ = ["give_dense", "take_dense"]

F32 = npt.NDArray[np.float32]


def give_dense(shard: Shard, specs: Sequence[DenseSpec], frontier: Sequence[Position]) -> Message:
    """Lay out parameters, their optimiser slots, and where lanes stand."""
    dense, slots = shard.dense, shard.dense.slots_where
    values = [dense.values[dense.where[spec.name]] for spec in specs]
    kept = [dense.slots[slots[spec.name]] for spec in specs]
    state = GroupState(min(frontier), tuple(frontier), ())
    return pack_state(state, shard.version, _flat(values), _flat(kept))


def take_dense(shard: Shard, specs: Sequence[DenseSpec], stored: StoredDense) -> None:
    """Replace parameters and slots by those that a member gave."""
    dense, at, slot = shard.dense, 0, 0
    for spec in specs:
        there = dense.slots_where[spec.name]
        end, slot_end = at + spec.size, slot + there.stop - there.start
        dense.set(spec.name, stored.values[at:end], stored.slots[slot:slot_end])
        at, slot = end, slot_end


def _flat(pieces: list[F32]) -> F32:
    return np.concatenate([*pieces, np.empty(0, np.float32)])
