"""One batch in flight, with the buffers it fills."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data import Batch
from heterps.protocol.words.keys import BatchKey
from heterps.runtime.batch.device_program import DeviceProgram
from heterps.runtime.batch.payload import Pulled
from heterps.tables import RouteBuffers, Routed
from heterps.tables.on_device.device_cache import RowsThere

__all__ = ["BatchWork"]

F32 = npt.NDArray[np.float32]


@dataclass(eq=False)
class BatchWork:
    """One batch in flight, with the buffers it fills."""

    dense: F32  # parameters as pulled for this batch, all of the model's
    gradient: F32  # of those parameters, in the same order
    values: dict[str, F32] = field(default_factory=dict)  # by group: unique rows, later their gradients; grows only
    batch: Batch | None = None  # None while nobody uses this work
    moment: int = 0  # how many batches its bench had begun with it
    routed: dict[str, Routed] = field(default_factory=dict)  # by group: where each id's row comes from
    routes: dict[str, RouteBuffers] = field(default_factory=lambda: defaultdict(RouteBuffers))  # that it lies in
    pulled: dict[int, Pulled] = field(default_factory=dict)  # by host: the answer that was accepted
    row_gradients: dict[str, Any] = field(default_factory=dict)  # by group, once it is computed; where rows are
    local: dict[str, npt.NDArray[np.uint32]] = field(default_factory=dict)  # by group: where rows of one's own stand
    there: dict[str, RowsThere] = field(default_factory=dict)  # by group: rows of a cache on the device
    kept: tuple[int, ...] = ()  # seed of the batch, if the stage holder has some of its dense gradient
    is_all_kept: bool = False  # it has all of it
    loss: float = 0.0  # sum over the batch's rows
    program: DeviceProgram | None = None  # that holds the first stage's forward, between lead and follow

    @property
    def key(self) -> BatchKey:
        """The key of the batch."""
        return self.read.key

    @property
    def read(self) -> Batch:
        """The batch, as long as this work has one."""
        assert self.batch is not None
        return self.batch

    def renew(self) -> None:
        """Take new buffers: an answer that is not waited for any more may still be written to the old ones."""
        self.values, self.pulled = {}, {}
        self.dense = np.empty_like(self.dense)

    def rows(self, group: str, width: int) -> F32:
        """Return the buffer for the unique rows of a group, enlarged where needed."""
        n = len(self.routed[group])
        buffer = self.values.get(group)
        if buffer is None or len(buffer) < n:
            buffer = self.values[group] = np.empty((n + n // 4, width), np.float32)
        return buffer[:n]
