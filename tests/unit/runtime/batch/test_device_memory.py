"""What cannot fit on a device is refused before training, with the batch size that might."""

import re
from dataclasses import replace

import dask
import numpy as np
import pytest

import heterps as hps
from heterps.device import found_devices
from heterps.device.fake import FakeArray
from heterps.errors import ClusterError, HardwareError
from heterps.kernels.program.memory import program_bytes
from heterps.planner.tiers import with_storage
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.device_memory import least_bytes
from heterps.runtime.batch.devices import DeviceWish
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from tests import zoo
from tests.unit.conftest import FREE


@pytest.mark.usefixtures("small_device")
def test_batches_that_cannot_fit_are_refused_with_the_size_that_might() -> None:
    graph = zoo.graph("wide_deep")
    with pytest.raises(HardwareError, match="need at least") as refused:
        hps.launch(hps.Plan.fused(graph, batch_size=100_000), engine="inline", device="fake")
    found = re.search(r"batches of ([\d,]+) rows may fit", str(refused.value))
    assert found is not None
    fits = int(found[1].replace(",", ""))
    hps.launch(hps.Plan.fused(graph, batch_size=fits), engine="inline", device="fake").close()
    with pytest.raises(HardwareError):
        hps.launch(hps.Plan.fused(graph, batch_size=fits + 1), engine="inline", device="fake")
    hps.launch(hps.Plan.fused(graph, batch_size=100_000), engine="inline").close()  # the CPU is another matter


@pytest.mark.usefixtures("small_device")
def test_on_a_cluster_the_worker_is_named_before_anything_runs() -> None:
    with pytest.raises(ClusterError, match=r"worker compute-0: batches of 100,000 rows need at least .* MiB on fake"):
        hps.launch(zoo.staged(zoo.graph("wide_deep"), batch_size=100_000), device="fake")


@pytest.mark.usefixtures("small_device")
def test_every_lane_of_a_worker_has_a_program() -> None:
    graph = zoo.graph("wide_deep")
    lowered = Model(graph).lowered.graph
    ops = tuple(op.name for op in lowered)
    size = next(n for n in range(64, 2**16, 64) if least_bytes(lowered, ops, n) > 0.6 * FREE)
    two = hps.Plan.fused(graph, batch_size=size, lanes=2)
    hps.launch(replace(two, lanes=1), device="fake", mode="sync").close()
    with pytest.raises(ClusterError, match=r"need at least 1\.\d MiB for 2 lanes of one worker on fake, .* may fit"):
        hps.launch(two, device="fake", mode="sync")
    hps.launch(two, device="fake", mode="async").close()  # one Split after another, on one program


def test_rows_of_tables_leave_less_for_batches() -> None:
    io, compute = (tuple(part.ops) for part in hps.partition(zoo.graph("wide_deep")).parts)
    found = replace(found_devices(), free_bytes={"fake": FREE})
    lowered = Model(zoo.graph("wide_deep")).lowered.graph
    size = next(n for n in range(64, 2**16, 64) if least_bytes(lowered, compute, n) > 0.6 * FREE)

    def on_device(storage: str) -> None:
        model = Model(with_storage(zoo.graph("wide_deep"), {"*": storage}))
        devices = DeviceWish("fake")
        Job(model, size, Async(), 2, stages=(io, compute), holder=True, devices=devices).device_on(1, found)

    on_device("memory")
    with pytest.raises(HardwareError, match=r"which has 0\.5 MiB free"):
        on_device("gpu")
    with dask.config.set({"heterps.worker.gpu-rows": f"{FREE // 4}B"}):
        on_device("gpu")


@pytest.mark.parametrize("name", sorted(zoo.SMALL))
def test_a_program_takes_what_was_forecast(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    made = FakeArray.__init__

    def counted(self: FakeArray, data: np.ndarray) -> None:
        taken.append(data.nbytes if data.base is None else 0)  # views take nothing
        made(self, data)

    job = Job(Model(zoo.graph(name)), 64, Async(), devices=DeviceWish("fake"))
    graph = job.model.lowered.graph
    ops = tuple(op.name for op in graph)
    monkeypatch.setattr(FakeArray, "__init__", counted)
    Workbench(job)
    assert sum(taken) == program_bytes(graph, ops, 64)
    assert least_bytes(graph, ops, 64) > sum(taken)
