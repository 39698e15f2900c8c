import pathlib

import pytest
from click.testing import CliRunner
from distributed import Client

from heterps.cli import main
from heterps.device import FoundDevices
from heterps.errors import ClusterError
from heterps.hardware import Device, Hardware, Host, Pool
from heterps.hardware.local import local_gpus
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.cluster.pools import FoundWorker, group_by_pool
from heterps.runtime.cluster.probe import discover
from heterps.runtime.cluster.survey import MeasuredTransfer, WorkerFacts, describe

CORE = Device("core", "cpu", {"float32": 1e10}, 2**30, 4e9, 2e9, source="test")
A100 = Device("NVIDIA A100", "gpu", {"float32": 1e13}, 40 * 2**30, 1e12, 1e9, bus_bytes_per_s=2e10, source="test")


def machine(name: str, *gpus: Device, cores: int = 8) -> Hardware:
    pools = (Pool("cpu", CORE, host=name), *(Pool("gpu", gpu) for gpu in gpus))
    return Hardware(pools, (Host(name, cores, 64 * 2**30, 2e10),))


def cluster(*workers: tuple[str, str, str, int]) -> tuple:
    """Workers as (machine, pool, name, threads)."""
    found = [FoundWorker(f"tcp://{m}:{n}", n, m, threads, 2**31, (pool,)) for m, pool, n, threads in workers]
    none = FoundDevices(why_no_gpu="no driver")
    facts = {w.address: WorkerFacts(w.host, 8, (("openblas", 1),), none) for w in found}
    return group_by_pool(found), facts


def test_workers_of_one_machine_share_it() -> None:
    pools, facts = cluster(("a", "io", "io-0", 2), ("a", "io", "io-1", 2), ("a", "server", "s", 4))
    hardware = describe(pools, facts, {"a": machine("a")}, [MeasuredTransfer("io", "server", 1e9, 1e-4)])
    io, server = hardware.pool("io"), hardware.pool("server")
    assert (io.cap, io.host, io.serves) == (2, "a", False)
    assert (server.cap, server.host, server.serves) == (1, "a", True)
    assert io.device.flops["float32"] == 2e10
    assert server.device.memory_bytes_per_s == 1.6e10
    assert io.device.memory_bytes == 2**31
    assert io.device.network_bytes_per_s == 1e9
    link = hardware.link("server", "io")
    assert link is not None
    assert (link.bytes_per_s, link.latency_s) == (1e9, 1e-4)


def test_equal_machines_are_one_host_with_a_count() -> None:
    pools, facts = cluster(*[(m, "io", f"io-{m}", 2) for m in "abc"], ("d", "server", "s", 4))
    hardware = describe(pools, facts, {m: machine(m) for m in "abcd"}, ())
    assert {host.name: host.count for host in hardware.hosts} == {"a": 3, "d": 1}
    assert hardware.pool("io").host == "a"


def test_a_pool_on_unequal_machines_has_no_host_and_goes_by_the_slowest() -> None:
    pools, facts = cluster(("a", "io", "io-0", 2), ("b", "io", "io-1", 4))
    hardware = describe(pools, facts, {"a": machine("a"), "b": machine("b", cores=4)}, ())
    assert hardware.pool("io").host is None
    assert hardware.pool("io").device.flops["float32"] == 2e10
    assert hardware.pool("io").serves  # nobody else does


def test_a_gpu_is_taken_by_its_model_and_none_is_emulated() -> None:
    pools, facts = cluster(("a", "gpu", "g", 1))
    there = {address: WorkerFacts("a", 8, (), FoundDevices((A100.name,))) for address in facts}
    real = describe(pools, there, {"a": machine("a", A100)}, ()).pool("gpu")
    assert (real.device.name, real.emulated, real.device.flops) == (A100.name, False, A100.flops)
    emulated = describe(pools, facts, {"a": machine("a")}, ()).pool("gpu")
    assert (emulated.kind, emulated.emulated, emulated.device.flops["float32"]) == ("gpu", True, 1e10)
    assert "NumPy" in emulated.device.source
    assert "no driver" in emulated.device.source


def test_an_in_process_cluster_is_discovered(local: Client) -> None:
    hardware = discover(local)
    assert {pool.name: pool.cap for pool in hardware.pools} == {"compute": 1, "io": 2, "server": 1}
    assert len(hardware.hosts) == 1
    assert hardware.links == ()  # arrays pass by reference
    assert Hardware.from_json(hardware.to_json()) == hardware


def test_the_command_writes_a_hardware_file(local: Client, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "cluster.toml"
    result = CliRunner().invoke(main, ["discover", local.scheduler.address, "--no-links", "--out", str(file)])
    assert result.exit_code == 0, result.output
    assert {pool.name for pool in Hardware.from_toml(str(file)).pools} == {"compute", "io", "server"}


def test_without_pools_there_is_nothing_to_discover() -> None:
    with pytest.raises(ClusterError, match="no worker declares a pool"):
        describe((), {}, {}, ())


def test_a_tagged_pool_without_a_gpu_is_emulated() -> None:
    if local_gpus():
        pytest.skip("there is a GPU here")
    with local_cluster({"gpu": 1}) as client:
        assert discover(client, links=False).pool("gpu").emulated
