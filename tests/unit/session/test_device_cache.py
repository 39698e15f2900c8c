"""An embedding cache in the memory of the device that computes: the numbers of one in memory, and less crosses."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import dask
import numpy as np
import pytest
from click.testing import CliRunner

import heterps as hps
from graphs.wide_deep import wide_deep
from heterps.cli import main
from heterps.device import namespace
from heterps.device.fake import TRAFFIC, Traffic
from heterps.errors import ClusterError, HardwareError, PlanError
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.clipping import Clip
from heterps.runtime.batch.devices import DeviceWish
from heterps.soak.counted_model import counted_data, counted_plan, shows
from heterps.tables import ElementAdaGrad
from heterps.tables.on_device.cache_check import check_device_cache
from heterps.tables.specs.rules import RULES
from heterps.testing.small_model import data, graph
from tests import zoo
from tests.gpu.host import host_kernels, needs_gpp
from tests.unit.runtime.batch.test_cache_copy import TERMS, Played, hosts_have, job
from tests.unit.runtime.test_cache import saved

DEVICES = ["fake", pytest.param("gpu:0", marks=pytest.mark.gpu)]
ROWS = 50


def plan(batch_size: int = 64, dim: int = 4) -> hps.Plan:
    return hps.Plan.fused(graph(dim), batch_size=batch_size, shard_hosts=2)


def tables(folder: Path, epochs: int = 1, **options: Any) -> dict[str, np.ndarray]:
    """Train alone on a device; return all that the tables hold."""
    with hps.launch(plan(), engine="inline", **{"device": "fake", **options}) as session:
        list(session.train(data(rows=400), epochs=epochs))
        return saved(session, folder)


def equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert len(expected) > 4
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.fixture(params=["arrays", pytest.param("kernels", marks=[needs_gpp, pytest.mark.full])])
def by(request: pytest.FixtureRequest) -> Iterator[str]:
    """The strict device with array functions, and with our kernels compiled for the host."""
    with host_kernels() if request.param == "kernels" else nullcontext():
        yield request.param


def test_a_cache_there_gives_what_one_in_memory_gives(by: str) -> None:
    check_device_cache(namespace("fake"), exact=by == "kernels")


@pytest.mark.gpu
def test_a_cache_on_a_gpu_gives_what_one_in_memory_gives() -> None:
    check_device_cache(namespace("gpu"))


def test_without_staleness_it_has_the_bits_of_a_run_without_a_cache(by: str, tmp_path: Path) -> None:
    plain = tables(tmp_path / "plain", mode=Async(1))
    equal(tables(tmp_path / "cache", cache_rows=ROWS, staleness=0), plain)


@pytest.mark.parametrize("staleness", [3, pytest.param(7, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "rules",
    [
        {},
        pytest.param({"sparse": hps.Adam(lr=0.05), "clip_norm": 0.01}, marks=pytest.mark.full, id="clipped"),
        pytest.param({"sparse": hps.SGD(lr=0.1), "clip_value": 0.001}, marks=pytest.mark.full, id="no slots"),
    ],
)
def test_with_staleness_it_has_the_bits_of_a_cache_in_memory(
    by: str, rules: dict[str, Any], staleness: int, tmp_path: Path
) -> None:
    found = [
        tables(tmp_path / where, cache_rows=ROWS, staleness=staleness, cache_on=where, **rules)
        for where in ("memory", "auto")
    ]
    equal(found[1], found[0])


@pytest.mark.parametrize("device", DEVICES)
def test_it_trains_as_a_cache_on_the_cpu(device: str, tmp_path: Path) -> None:
    rules = {"sparse": hps.SGD(lr=0.1), "dense": hps.SGD(lr=0.05), "cache_rows": ROWS, "staleness": 3}
    found = [tables(tmp_path / where, device=where, **rules) for where in ("cpu", device)]
    for name, values in found[0].items():
        if values.dtype == np.float32:
            np.testing.assert_allclose(found[1][name], values, rtol=1e-5, atol=1e-5, err_msg=name)


# --- what crosses


def crossed(batches: int, **options: Any) -> Traffic:
    """Copies and waits of so many batches, beyond those of the first four."""
    found = []
    for n in (4, 4 + batches):
        TRAFFIC.reset()
        with hps.launch(plan(dim=32), engine="inline", device="fake", **options) as session:
            list(session.train(data(rows=64 * n, split=64 * n)))
        found.append(replace(TRAFFIC))
    return Traffic(**{name: value - vars(found[0])[name] for name, value in vars(found[1]).items()})


@pytest.mark.parametrize(("staleness", "unit"), [(3, 2), pytest.param(7, 4, marks=pytest.mark.full)])
def test_a_batch_crosses_once_each_way_and_a_unit_once_more_down(by: str, staleness: int, unit: int) -> None:
    """What came from hosts and where rows are goes up with the batch; gradients of rows come down once a unit."""
    there = crossed(8, cache_rows=ROWS, staleness=staleness)
    assert there.to_device == 8
    assert there.to_host == there.syncs == 8 + 8 // unit
    memory = crossed(8, cache_rows=ROWS, staleness=staleness, cache_on="memory")
    assert memory.to_device == memory.to_host == memory.syncs == 8
    assert there.bytes_to_device < memory.bytes_to_device
    assert there.bytes_to_host < 0.8 * memory.bytes_to_host


@pytest.mark.full
def test_a_table_without_a_cache_goes_the_usual_way() -> None:
    two = hps.Plan.fused(zoo.graph("two_emb"), batch_size=zoo.BATCH)
    with hps.launch(two, engine="inline", device="fake", cache_rows={"left*": 9}, staleness=3) as session:
        last = list(session.train(zoo.data(two.graph)))[-1]
    ((name, use),) = last.exchange.caches.items()
    assert name.startswith("left")
    assert use.device == "fake"


# --- in engines


@pytest.mark.parametrize("engine", ["inline", pytest.param("dask", marks=pytest.mark.full)])
def test_every_batch_counts_once_and_reports_name_the_device(engine: str, tmp_path: Path) -> None:
    """Rows behind a counting accessor: values are kept there, own steps are the hosts' alone."""
    options: dict[str, Any] = {"cache_rows": 300, "staleness": 5, "checkpoint": tmp_path / "cuts", "every_batches": 20}
    with hps.launch(counted_plan(2, lanes=2), engine=engine, device="fake", **options) as session:
        last = list(session.train(counted_data(session, 800), epochs=2))[-1]
        assert shows(session.save(tmp_path / "end"), 2) == [2 * 800] * 2
    use = last.exchange.caches["seen"]
    assert use.device == "fake"
    assert 0 < use.asked < use.rows
    assert "seen on fake, hits" in str(last)
    assert "cache of seen: on fake, hits" in str(last.profile)


# --- against shard hosts, batch by batch


GROUP = "vectors+wide"


def there(played: Played, work: Any) -> np.ndarray:
    """Return the rows that a batch has on the device."""
    played.copy.fill(work)
    lent = work.there[GROUP]
    return lent.arrive([namespace("fake").asarray(array) for array in lent.arrays]).get()


def on_device(**options: Any) -> Played:
    return Played(job(devices=DeviceWish("fake"), **options))


@pytest.mark.parametrize("rate", [1.0, pytest.param(0.25, marks=pytest.mark.full)])
def test_rows_that_stay_are_there_what_hosts_will_make_of_them(by: str, rate: float) -> None:
    played = on_device(staleness=3, rate=rate)
    for n in range(5):  # with the fourth they are asked for again, and stay
        played.learn(n, seed=1)
        if n % 2:
            played.settle(n - 1)
    work = played.begin(5, seed=1)
    played.pull(work)
    found = there(played, work)
    assert not np.array_equal(found, hosts_have(played, work, GROUP))
    played.settle(4, batches=1)
    np.testing.assert_array_equal(found, hosts_have(played, work, GROUP))


def test_whoever_leaves_a_unit_unfinished_leaves_nothing_there() -> None:
    played = on_device(staleness=7)
    for n in range(3):
        played.learn(n, seed=1)
    played.copy.leave(1, TERMS, whole=False)
    played.copy.enter(2, 0, TERMS)
    work = played.begin(0, seed=1)
    assert sum(played.asked(work)) == len(work.routed[GROUP])
    played.pull(work)
    np.testing.assert_array_equal(there(played, work), hosts_have(played, work, GROUP))


# --- what cannot be


@pytest.mark.usefixtures("small_device")
def test_a_cache_that_does_not_fit_is_refused_with_the_rows_that_would() -> None:
    made, options = plan(8), {"engine": "inline", "device": "fake"}
    with pytest.raises(
        HardwareError, match=r"the cache of vectors, wide takes .* MiB on fake.*which has 0\.5 MiB"
    ) as no:
        hps.launch(made, cache_rows=100_000, **options)
    fits = int(str(no.value).split("(--cache-rows): vectors, wide ")[1].split(";")[0].replace(",", ""))
    hps.launch(made, cache_rows=fits, **options).close()
    with pytest.raises(HardwareError):
        hps.launch(made, cache_rows=fits + 1, **options)
    hps.launch(made, cache_rows=100_000, cache_on="memory", **options).close()
    with dask.config.set({"heterps.worker.gpu-rows": "100MB"}), pytest.raises(HardwareError, match="batches of 8 rows"):
        hps.launch(made, cache_rows=100_000, **options)


@pytest.mark.full
@pytest.mark.usefixtures("small_device")
def test_on_a_cluster_the_worker_is_named_before_anything_runs() -> None:
    with pytest.raises(ClusterError, match=r"worker io-0: the cache of vectors, wide takes"):
        hps.launch(plan(8), cache_rows=100_000, device="fake")


@RULES.add
@dataclass(frozen=True)
class HostsOnly(ElementAdaGrad):
    """Hosts know it, and no device."""

    code: ClassVar[int] = -1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache_on": "moon", "cache_rows": 5}, r"cache_on='moon'; rows of a cache are in 'memory' or on the 'device'"),
        ({"cache_on": "device"}, r"cache_on='device', but no table has a cache"),
        ({"cache_on": "device", "cache_rows": 5, "device": "cpu"}, r"cache_on='device', but CPU computes: ask for a"),
        ({"cache_on": "device", "cache_rows": 5, "sparse": HostsOnly()}, r"rule HostsOnly of table .* no CUDA body"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((PlanError, HardwareError), match=message):
        hps.launch(plan(), engine="inline", **{"device": "fake", **options})


def test_plans_of_stages_keep_it_where_data_is_read() -> None:
    made = zoo.staged(zoo.graph("wide_deep"))
    with pytest.raises(PlanError, match=r"cache_on='device': this plan has 2 stages"):
        hps.launch(made, cache_rows=5, cache_on="device", device="fake")


def test_clipping_there_is_clipping_here() -> None:
    rows = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    rows[3, 1], rows[4] = np.nan, 0
    there = namespace("fake").asarray(rows)
    for clip in (Clip(norm=0.7), Clip(value=0.3), Clip(1.0, 0.5)):
        here, copy = rows.copy(), there.copy()
        clip.rows(here)
        clip.rows(copy[:, :])
        np.testing.assert_allclose(copy.get(), here, rtol=1e-6)


@pytest.mark.full
def test_the_command_takes_it(tmp_path: Path) -> None:
    hps.Plan.fused(wide_deep(slots=19, dense=5, dim=2, hidden=(8,)), batch_size=2048).save(tmp_path / "plan.json")
    words = ["train", str(tmp_path / "plan.json"), "--data", "adult:test", "--cache-rows", "500", "--staleness", "3"]
    words += ["--cache-on", "device", "--profile", "--device"]
    result = CliRunner().invoke(main, [*words, "fake"])
    assert result.exit_code == 0, result.output
    assert "on fake, hits" in result.output
    refused = CliRunner().invoke(main, [*words, "cpu"])
    assert refused.exit_code
    assert "CPU computes: ask for a device" in " ".join(refused.output.split())
