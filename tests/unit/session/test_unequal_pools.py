"""A stage on GPUs of two kinds, and a GPU worker that cannot compute."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from distributed import get_worker

import heterps as hps
from heterps.device import FoundDevices, found_devices
from heterps.errors import ClusterError, PlanError
from heterps.planner.plan import Share
from heterps.runtime.batch import job as job_module
from heterps.runtime.cluster.in_process import local_cluster
from tests import zoo
from tests.unit.session.test_device_training import same, trained

pytestmark = pytest.mark.xdist_group("dask")


def plan(units: int = 1, kind: str = "gpu") -> hps.Plan:
    """Wide & Deep with its compute stage on pools v100 and p40."""
    made = zoo.staged(zoo.graph("wide_deep"))
    io, gpu = made.pools
    first, second = made.stages
    also = (Share("p40", 1, Fraction(1, 4)),)
    pools = (io, replace(gpu, name="v100"), replace(gpu, name="p40", device=replace(gpu.device, kind=kind)))
    return replace(made, stages=(first, replace(second, pool="v100", units=units, also=also)), pools=pools)


def test_both_pools_compute_and_the_numbers_are_those_of_one_thread() -> None:
    made = plan()
    expected = trained(hps.Plan.fused(made.graph, batch_size=made.batch_size), engine="inline")
    with local_cluster({"server": 1, "io": 1, "v100": 1, "p40": 1}) as client:
        same(trained(made, client=client, device="fake"), expected)
        with hps.launch(made, client=client, device="fake", mode="async", report_s=1e9) as session:
            last = session.fit(zoo.data(made.graph, 40 * zoo.BATCH))
            steps = session.engine.stage_steps()
    assert set(steps) == {"v100-0", "p40-0"}
    assert min(steps.values()) > 0
    assert sum(steps.values()) >= 40
    assert {pool for pool in last.profile.devices if pool != "io"} == {"v100", "p40"}


@pytest.mark.full
def test_a_later_stage_may_be_on_several_pools_too() -> None:
    graph = zoo.graph("wide_deep")
    io, compute = (part.ops for part in hps.partition(graph).parts)
    made = zoo.staged(graph, [io, compute[:-2], compute[-2:]])
    last = replace(made.stages[2], pool="v100", also=(Share("p40", 1, Fraction(1, 4)),))
    pools = (*made.pools, *(replace(made.pools[1], name=name) for name in ("v100", "p40")))
    made = replace(made, stages=(*made.stages[:2], last), pools=pools)
    with (
        local_cluster({"server": 1, "io": 1, "gpu": 1, "v100": 1, "p40": 1}) as client,
        hps.launch(made, client=client, device="fake", mode="async", report_s=1e9) as session,
    ):
        found = session.fit(zoo.data(graph, 20 * zoo.BATCH))
    assert {pool for pool in found.profile.devices if pool != "io"} == {"gpu", "v100", "p40"}


@pytest.mark.full
def test_each_pool_has_to_be_there() -> None:
    with (
        local_cluster({"server": 1, "io": 1, "v100": 1}) as client,
        pytest.raises(ClusterError, match=r"has 0 of 1 workers|has 1 of 2 workers"),
    ):
        hps.launch(plan(units=2), client=client, device="fake")


def test_one_stage_is_on_devices_of_one_kind() -> None:
    with pytest.raises(PlanError, match=r"pools v100, p40, of which only some have GPUs"):
        hps.launch(plan(kind="cpu"), device="fake")


class Told(logging.Handler):
    """Hears what the run says of its workers."""

    def __init__(self) -> None:
        super().__init__()
        self.lines, self.left_out = list[str](), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if "is lost to the run" in self.lines[-1]:
            self.left_out.set()


@pytest.fixture
def told() -> Iterator[Told]:
    handler = Told()
    logging.getLogger("heterps").addHandler(handler)
    yield handler
    logging.getLogger("heterps").removeHandler(handler)


def test_a_worker_that_comes_later_and_has_no_gpu_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """As far as the run can tell it was not there when workers were asked what they have."""

    def here() -> FoundDevices:
        name, found = get_worker().name, found_devices()
        if name == "gpu-0":  # computes once the other is known to be of no use
            assert told.left_out.wait(60)
        return replace(found, registered=("cpu",)) if name == "gpu-1" else found

    made = zoo.staged(zoo.graph("wide_deep"))
    with (
        local_cluster({"server": 1, "io": 1, "gpu": 2}) as client,
        hps.launch(made, client=client, device="fake", mode="async", report_s=1e9) as session,
        monkeypatch.context() as patch,
    ):
        patch.setattr(job_module, "found_devices", here)
        last = session.fit(zoo.data(made.graph, 10 * zoo.BATCH))
        assert set(session.engine.stage_steps()) == {"gpu-0"}
    assert last.samples == 10 * zoo.BATCH
    (line,) = told.lines
    assert "worker gpu-1 is lost to the run" in line
    assert "unknown device 'fake'" in line
