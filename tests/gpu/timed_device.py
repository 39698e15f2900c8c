"""The strict device on streams that take their time: a real stage, with its copies and kernels timed and ordered.

Numbers are computed at once; what a stream would have to wait for is known from its clock, see ``streams.py``. Every
kernel counts as a write of all it touches, which finds more than there is and is still no false alarm: no two streams
read the same memory without order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import heterps.device.transfer as right
from heterps.device import fake
from tests.gpu.streams import Machine, Memory, Stream


class TimedDevice(Machine):
    """Stands for ``cupy.cuda`` behind the strict device.

    Parameters
    ----------
    copy, copy_down
        What one copy takes.
    """

    def __init__(self, copy: float = 1.0, copy_down: float = 0.0) -> None:
        super().__init__(copy=copy, copy_down=copy_down)
        self.kernel_took, self.kernels = 0.0, 0
        self._memories: dict[int, tuple[Any, Memory]] = {}  # by the allocation's identity, which lives as long

    def memory(self, data: np.ndarray[Any, Any]) -> Memory:
        base: Any = data
        while isinstance(getattr(base, "base", None), np.ndarray):
            base = base.base
        return self._memories.setdefault(id(base), (base, Memory(f"device {data.dtype}{data.shape}")))[1]

    def launched(self, touched: list[np.ndarray[Any, Any]]) -> None:
        """A kernel of the current stream."""
        self.kernels += 1
        took = self.kernel_took if self.current[-1] is self.streams[0] else 0.0
        self.current[-1].run(_nothing, (), {id(m): m for m in map(self.memory, touched)}.values(), took)

    def up(self, array: fake.FakeArray, host: np.ndarray[Any, Any], stream: Stream | None = None) -> None:
        self.copies += 1
        stream = stream or self.current[-1]
        stream.run(_nothing, (self.pinned_at(host),), (self.memory(array._data),), self.copy)
        array._data[...] = host

    def down(self, array: fake.FakeArray, stream: Stream | None = None, out: Any = None, blocking: bool = True) -> Any:
        self.copies += 1
        stream = stream or self.current[-1]
        written = () if out is None else (self.pinned_at(out),)  # else memory that nobody else has
        stream.run(_nothing, (self.memory(array._data),), written, self.copy_down)
        out = np.empty_like(array._data) if out is None else out
        out[...] = array._data
        if blocking:
            stream.synchronize()
        return out


@contextmanager
def timed(machine: TimedDevice, transfer: ModuleType = right) -> Iterator[pytest.MonkeyPatch]:
    """Let the strict device and this module of transfers run on a machine; the host's accesses are watched, too."""

    def upload(self: Any) -> None:
        for array in self.host.values():
            machine.touch(array, write=True)  # it was filled just now
        uploaded(self)

    def collect(self: Any) -> Any:
        found = collected(self)
        for array in found.values():
            machine.touch(array, write=False)  # it is read next
        return found

    uploaded, collected = transfer.Lap.upload, transfer.Lap.collect
    with pytest.MonkeyPatch.context() as patch, fake.watch_kernels(machine.launched):
        patch.setattr(fake._FakeNamespace, "cuda", machine)
        patch.setattr(fake.FakeArray, "set", lambda self, host, stream=None: machine.up(self, host, stream))
        patch.setattr(fake.FakeArray, "get", lambda self, *args, **options: machine.down(self, *args, **options))
        patch.setattr(transfer.Lap, "upload", upload)
        patch.setattr(transfer.Lap, "collect", collect)
        patch.setattr("heterps.runtime.batch.device_program.Transfer", transfer.Transfer)
        patch.setattr("heterps.runtime.workers.stage.CopyStreams", transfer.CopyStreams)
        yield patch


def _nothing() -> None:
    """What the work computes is there already."""
