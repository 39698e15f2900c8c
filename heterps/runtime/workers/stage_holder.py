"""What makes a shard host a stage holder: parameters and rows on the stage's device, gradients that never leave it.

Rows of a batch are lent under its seed when they are pulled, for the stages that compute with them. The stage of the
same process leaves the gradients of each batch here, under the same seed, before it answers; the push that follows says
which ones belong to it. They are taken out when the push counts, and all are forgotten where nothing is in flight: at a
cut, and when the tables are loaded. What a stage began to compute before that is not taken any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heterps.device import is_host, to_device, to_host
from heterps.device.memory import free_memory
from heterps.errors import RunError
from heterps.kernels.program.param_layout import ParamLayout
from heterps.runtime.batch.device_memory import rows_bytes
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import PushedGradients, Wanted
from heterps.tables import RowGradients
from heterps.tables.live.dense import DenseBlock
from heterps.tables.live.group import RowGroup
from heterps.tables.on_device.device_dense import DeviceDense
from heterps.tables.on_device.device_group import DeviceGroup
from heterps.tables.on_device.lane_sums import sum_there

__all__ = ["LentGradient", "StageHolder"]

U64 = npt.NDArray[np.uint64]
_NO_ROWS = np.empty(0, np.uint32)  # a hint that never leaves its device


class LentGradient(NamedTuple):
    """The gradient of rows that were lent, in the order of their ids, where it was computed."""

    ids: U64
    values: Any


@dataclass(eq=False)
class _OfBatch:
    """What belongs to one batch."""

    lent: dict[str, Any] = field(default_factory=dict)  # by group: values of its rows
    hints: dict[str, Any] = field(default_factory=dict)  # by group: where those rows stand
    dense: dict[int, Any] = field(default_factory=dict)  # by stage: flat gradients
    rows: dict[int, Mapping[str, LentGradient]] = field(default_factory=dict)  # by stage


class StageHolder:
    """What one stage holder has on the device, beside the tables themselves.

    Parameters
    ----------
    job
        What is trained; the device is that of its first compute stage in this process.
    """

    def __init__(self, job: Job) -> None:
        self.device = job.device_here(1)
        self._lent, self._shares = job.lent, max(len(job.on_gpu), 1)
        self._size = job.model.layout.size
        graph = job.model.lowered.graph
        parts = {i: ParamLayout(graph, ops) for i, ops in enumerate(job.stages)}
        self._spans = {i: list(job.model.layout.spans(part)) for i, part in parts.items()}
        self._lock = threading.Lock()  # around what follows
        self.mark = 0  # grows when all is forgotten: what was computed from earlier rows is of no use
        self._kept: dict[int, _OfBatch] = {}  # by the batch's seed

    @property
    def block(self) -> Callable[..., DenseBlock | DeviceDense]:
        """Makes the block of dense parameters."""
        return DenseBlock if self.device.xp is np else partial(DeviceDense, xp=self.device.xp)

    @property
    def rows_on_device(self) -> Callable[[RowGroup], DeviceGroup] | None:
        """Makes what trains rows on the device; None where that is the CPU, which trains them where they are."""
        xp = self.device.xp
        if xp is np:
            return None
        with self.device.current():
            room = rows_bytes(free_memory(xp))
        return partial(DeviceGroup, xp=xp, limit=None if room is None else room // self._shares)

    # --- rows out

    def handed_out(
        self, wanted: Wanted, values: Mapping[str, Any], rows: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Keep what is lent of pulled values and hints; return what the caller gets, on the host."""
        stay = self._lent if wanted.lent is not None else frozenset()
        if wanted.lent is not None:
            with self._lock:
                kept = self._kept.setdefault(wanted.lent, _OfBatch())
                kept.lent = {name: found for name, found in values.items() if name in stay}
                kept.hints = {name: hint for name, hint in rows.items() if name in stay}
        given = {
            name: np.empty((0, found.shape[1]), np.float32) if name in stay else _here(found, wanted.out.get(name))
            for name, found in values.items()
        }
        return given, {name: hint if isinstance(hint, np.ndarray) else _NO_ROWS for name, hint in rows.items()}

    def lent(self, seed: int) -> Mapping[str, Any]:
        """Return the rows that were lent to a batch, by group, as far as they are kept."""
        with self._lock:
            return self._kept[seed].lent if seed in self._kept else {}

    # --- gradients in

    def keep(self, seed: int, stage: int, gradient: Any, rows: Mapping[str, LentGradient], mark: int) -> None:
        """Take the gradients of a stage for a batch, computed under a mark; computed again they are the same."""
        with self._lock:
            if mark == self.mark:
                kept = self._kept.setdefault(seed, _OfBatch())
                kept.dense[stage], kept.rows[stage] = gradient, rows

    def whole(self, gradients: PushedGradients) -> PushedGradients:
        """Return a push with all of its gradients, where the parameters and rows are."""
        with self.device.current(), self._lock:
            kept = [self._found(seed) for seed in gradients.kept]
            dense = self._dense(gradients, kept)
            rows = {name: self._rows(name, given, kept) for name, given in gradients.rows.items()}
        return replace(gradients, dense=dense, rows=rows, kept=())

    def _found(self, seed: int) -> _OfBatch:
        if seed not in self._kept or not self._kept[seed].dense:
            raise RunError("a stage's gradient was pushed that it has not left with the stage holder")
        return self._kept[seed]

    def _dense(self, gradients: PushedGradients, kept: Iterable[_OfBatch]) -> Any:
        xp = self.device.xp
        dense: Any = None if gradients.dense is None else to_device(gradients.dense, xp)
        if gradients.kept:
            dense = xp.zeros(self._size, np.float32) if dense is None else dense.copy()
        for batch in kept:
            for stage, flat in batch.dense.items():
                for here, there in self._spans[stage]:
                    dense[here] += flat[there]
        return dense

    def _rows(self, name: str, given: RowGradients, kept: Iterable[_OfBatch]) -> RowGradients:
        """Add what was left here to what was sent, in the order of batches and stages."""
        if name not in self._lent:
            return given
        left = [
            (batch.hints.get(name), stage[name]) for batch in kept for stage in batch.rows.values() if name in stage
        ]
        lanes = [RowGradients(each.ids, each.values, hint, version=given.version) for hint, each in left]
        if len(given) or not lanes:
            lanes.insert(0, replace(given, values=to_device(given.values, self.device.xp)))
        return sum_there(lanes)

    def forget(self, seeds: Iterable[int]) -> None:
        """The push of these batches counts, or is known already."""
        with self._lock:
            for seed in seeds:
                self._kept.pop(seed, None)

    def clear(self) -> None:
        """Nothing is in flight."""
        with self._lock:
            self.mark += 1
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


def _here(rows: Any, out: Any) -> Any:
    """Return pulled values on the host, in the buffer that was given for them."""
    if is_host(rows):
        return rows
    here = to_host(rows)
    if out is None:
        return here
    np.copyto(out[: len(here)], here)
    return out[: len(here)]
