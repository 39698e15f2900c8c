"""What makes a shard host a stage holder: dense parameters on the stage's device, gradients that never leave it.

The stage of the same process leaves the dense gradient of each batch here, under the batch's seed, before it answers;
the push that follows says which ones belong to it. They are taken out when the push counts, and all are forgotten
where nothing is in flight: at a cut, and when the tables are loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from heterps.device import to_device
from heterps.errors import RunError
from heterps.kernels.program.param_layout import ParamLayout
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.payload import PushedGradients
from heterps.tables.live.dense import DenseBlock
from heterps.tables.on_device.device_dense import DeviceDense

__all__ = ["StageHolder"]


class StageHolder:
    """The dense side of one stage holder.

    Parameters
    ----------
    job
        What is trained; the device is that of its first compute stage in this process.
    """

    def __init__(self, job: Job) -> None:
        self.device = job.device_here(1)
        self._size = job.model.layout.size
        graph = job.model.lowered.graph
        parts = {i: ParamLayout(graph, ops) for i, ops in enumerate(job.stages)}
        self._spans = {i: list(job.model.layout.spans(part)) for i, part in parts.items()}
        self._lock = threading.Lock()  # around what follows
        self._kept: dict[int, dict[int, Any]] = {}  # by the batch's seed and stage: flat gradients where they were made

    @property
    def block(self) -> Callable[..., DenseBlock | DeviceDense]:
        """Makes the block of dense parameters."""
        return DenseBlock if self.device.xp is np else partial(DeviceDense, xp=self.device.xp)

    def keep(self, seed: int, stage: int, gradient: Any) -> None:
        """Take the dense gradient of a stage for a batch; a batch that is computed again gives the same."""
        with self._lock:
            self._kept.setdefault(seed, {})[stage] = gradient

    def whole(self, gradients: PushedGradients) -> PushedGradients:
        """Return a push with all of its dense gradient, where the parameters are."""
        xp = self.device.xp
        with self.device.current(), self._lock:
            dense: Any = None if gradients.dense is None else to_device(gradients.dense, xp)
            if gradients.kept:
                dense = xp.zeros(self._size, np.float32) if dense is None else dense.copy()
            for seed in gradients.kept:
                if seed not in self._kept:
                    raise RunError("a stage's dense gradient was pushed that it has not left with the stage holder")
                for stage, flat in self._kept[seed].items():
                    for here, there in self._spans[stage]:
                        dense[here] += flat[there]
        return replace(gradients, dense=dense, kept=())

    def forget(self, seeds: Iterable[int]) -> None:
        """The push of these batches counts, or is known already."""
        with self._lock:
            for seed in seeds:
                self._kept.pop(seed, None)

    def clear(self) -> None:
        """Nothing is in flight."""
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
