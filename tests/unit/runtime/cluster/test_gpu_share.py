"""One GPU for each process, by model where a pool has a model's name, by number or UUID as this process got them."""

import pathlib

import pytest
from click.testing import CliRunner

from heterps.cli import main
from heterps.errors import ClusterError
from heterps.hardware.visible import ListedGpu, is_gpu_name, listed_gpus, visible_gpus
from heterps.runtime.cluster import launcher
from heterps.runtime.cluster.core_share import allot
from heterps.runtime.cluster.gpu_share import deal_gpus
from heterps.runtime.cluster.many_hosts import many_hosts

V1, P, V2 = (
    ListedGpu("Tesla V100-SXM2-16GB", "GPU-1111-aa", "0"),
    ListedGpu("Tesla P40", "GPU-2222-bb", "1"),
    ListedGpu("Tesla V100-SXM2-16GB", "GPU-1133-cc", "2"),
)
LISTED = (V1, P, V2)


def called(chosen: str | None) -> list[str]:
    return [gpu.called for gpu in visible_gpus(LISTED, chosen)]


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [
        (None, ["0", "1", "2"]),
        ("2,0", ["2", "0"]),
        ("", []),
        ("1, 2", ["1", "2"]),
        ("0,7,1", ["0"]),  # what stands behind a word that fits none is not seen
        ("GPU-2222-bb,0", ["GPU-2222-bb", "0"]),
        ("GPU-22", ["GPU-22"]),
        ("GPU-11", []),  # fits two
        ("MIG-GPU-1111-aa/1/0", ["MIG-GPU-1111-aa/1/0"]),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(chosen: str | None, seen: list[str]) -> None:
    assert called(chosen) == seen


def test_a_gpu_is_seen_once() -> None:
    assert len(visible_gpus(LISTED, "GPU-2222-bb,GPU-2222-bb,0")) == 1


def test_the_driver_lists_models_and_uuids(tmp_path: pathlib.Path) -> None:
    for place, model, uuid in (("0000:af:00.0", "Tesla P40", "GPU-2"), ("0000:3b:00.0", "Tesla V100", "GPU-1")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "information").write_text(f"Model: \t\t {model}\nIRQ:   1\nGPU UUID: \t {uuid}\n")
    assert listed_gpus(str(tmp_path)) == (ListedGpu("Tesla V100", "GPU-1", "0"), ListedGpu("Tesla P40", "GPU-2", "1"))
    assert listed_gpus(str(tmp_path / "none")) == ()


def test_pools_named_after_a_gpu_get_that_one() -> None:
    pools = ["io", "gpu", "v100", "v100"]
    assert deal_gpus(pools, LISTED) == (None, "1", "0", "2")
    seen = visible_gpus(LISTED, "GPU-1133-cc,GPU-2222-bb")
    assert deal_gpus(["p40", "v100"], seen) == ("GPU-2222-bb", "GPU-1133-cc")
    assert deal_gpus(["gpu", "io", "gpu"], ()) == ("0", None, "1")  # they say themselves why they cannot


@pytest.mark.parametrize("pools", [["gpu"] * 4, ["p40", "p40"], ["a100"]])
def test_one_process_has_one_gpu_of_its_own(pools: list[str]) -> None:
    with pytest.raises(ClusterError, match=r"no GPU is left.*Tesla P40"):
        deal_gpus(pools, LISTED)


def test_names_of_gpus() -> None:
    assert all(map(is_gpu_name, ("v100", "p40", "a100", "a100_80gb", "t4")))
    assert not any(map(is_gpu_name, ("io", "gpu2", "c6i_8xlarge", "fast", "v1000")))


def test_workers_with_a_gpu_give_their_cores_to_blas() -> None:
    assert [(t.tasks, t.blas) for t in allot(["io", "v100"], 5)] == [(2, 1), (1, 3)]


def test_the_command_starts_pools_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    (script := tmp_path / "train.py").touch()
    started: list[launcher.Launch] = []
    monkeypatch.setattr(launcher, "launch_cluster", lambda launch, tell: started.append(launch) or 0)
    words = ["launch", "--io", "2", "--pool", "v100=2", "--pool", "p40=1", str(script)]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert dict(started[0].pools) == {"server": 1, "io": 2, "compute": 0, "gpu": 0, "v100": 2, "p40": 1}


@pytest.mark.parametrize("wrong", ["v100", "v100=some", "io=2"])
def test_a_pool_without_a_number_is_refused(wrong: str) -> None:
    result = CliRunner().invoke(main, ["launch", "--pool", wrong, "train.py"])
    assert result.exit_code == 2
    assert "--pool" in result.output


def test_many_machines_have_them_too() -> None:
    text = many_hosts("127.0.0.1=io+server,127.0.0.2=v100", {"io": 1, "server": 1, "v100": 2})
    assert text.count("HPS_V100=1") == 2
    assert "CUDA_VISIBLE_DEVICES=0" in text
    assert "CUDA_VISIBLE_DEVICES=1" in text
    with pytest.raises(ClusterError, match="no pool 'p40'"):
        many_hosts("127.0.0.1=p40", {"io": 1})
