"""cuBLAS has one workspace a handle: products on two streams that nothing orders would write over each other there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from heterps.device import fake
from heterps.errors import HeterpsError
from heterps.runtime.workers.stage import StageService
from tests.gpu.streams import Memory
from tests.gpu.test_stage_overlap import DEPTH, last_stage, middle_stage, play, same
from tests.gpu.timed_device import TimedDevice, timed


@contextmanager
def workspace(machine: TimedDevice, patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Have every matrix product write to the workspace, on the stream that is current; yield the streams' numbers."""
    memory, products, call = Memory("the workspace of cuBLAS"), list[int](), fake._call_ufunc

    def watched(ufunc: np.ufunc, *args: Any) -> Any:
        if ufunc is np.matmul:
            stream = machine.current[-1]
            stream.run(lambda: None, (), (memory,))
            products.append(stream.number)
        return call(ufunc, *args)

    patch.setattr(fake, "_call_ufunc", watched)
    yield products


@pytest.mark.parametrize("make", [last_stage, middle_stage])
def test_all_products_of_a_stage_are_on_one_stream(make: Any) -> None:
    machine = TimedDevice(copy_down=1.0)
    with timed(machine) as patch, workspace(machine, patch) as products:
        found = play(make(), 2 * DEPTH)
    assert len(products) >= 2 * DEPTH * 2
    assert len(set(products)) == 1
    same(found, play(make("cpu"), 2 * DEPTH))


def test_a_stream_for_each_batch_would_share_the_workspace() -> None:
    """Ordered behind what made the programs, so that nothing else is shared."""
    machine = TimedDevice(copy_down=1.0)

    def own_stream(self: StageService) -> Any:
        made, before = machine.Stream(non_blocking=True), machine.Event(disable_timing=True)
        before.record(machine.streams[0])
        made.wait_event(before)
        return made

    with timed(machine) as patch, workspace(machine, patch):
        patch.setattr(StageService, "_computing", own_stream)
        with pytest.raises(HeterpsError, match="RaceError: the workspace of cuBLAS"):
            play(last_stage(), 2 * DEPTH)
