import pathlib
import shlex
import tomllib
from collections import Counter
from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner
from dask.cli import _register_command_ep
from hypothesis import given, strategies as st

from heterps.cli import main
from heterps.errors import ClusterError
from heterps.runtime.cluster import launcher
from heterps.runtime.cluster.certificates import Certificates
from heterps.runtime.cluster.commands import scheduler_command, worker_command
from heterps.runtime.cluster.core_share import Threads
from heterps.runtime.cluster.many_hosts import Machine, parse_hosts, spread
from heterps.runtime.cluster.resources import declared_pools, pool_of, resource_of

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


@given(names)
def test_resources_and_pools_stand_for_each_other(pool: str) -> None:
    assert pool_of(resource_of(pool)) == pool


def test_the_resources_are_those_that_people_use() -> None:
    assert [resource_of(p) for p in ("server", "io", "compute", "gpu")] == [
        "HPS_SERVER",
        "HPS_IO",
        "HPS_COMPUTE",
        "GPU",
    ]
    assert declared_pools({"HPS_IO": 1, "GPU": 1, "MEM": 5, "HPS_SERVER": 0}) == ("gpu", "io")
    with pytest.raises(ClusterError, match="'Io Pool'"):
        resource_of("Io Pool")


def option(words: tuple[str, ...], name: str) -> str:
    return words[words.index(name) + 1]


def test_every_server_says_where_it_listens() -> None:
    for made in (scheduler_command("127.0.0.1", 0), worker_command("io", "io-0", "127.0.0.1", Threads(2, 1))):
        assert option(made.words, "--host") == "127.0.0.1"
        assert option(made.words, "--dashboard-address") == "127.0.0.1:0"
        assert "--no-dashboard" in made.words


def test_a_dashboard_stays_on_loopback() -> None:
    made = scheduler_command("10.0.0.5", 8786, Certificates(pathlib.Path("certs")), dashboard=8787)
    assert option(made.words, "--dashboard-address") == "127.0.0.1:8787"
    assert "--no-dashboard" not in made.words
    assert option(made.words, "--protocol") == "tls"
    assert made.environment["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"


def test_a_gpu_worker_follows_the_convention_of_dask_cuda() -> None:
    made = worker_command("gpu", "gpu-1", "127.0.0.1", Threads(1, 2), gpu="1")
    assert option(made.words, "--resources") == "GPU=1"
    assert option(made.words, "--nthreads") == "1"
    assert made.environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert made.environment["OMP_NUM_THREADS"] == "2"


def test_a_command_is_a_line_for_a_shell() -> None:
    made = worker_command("io", "io-0", "127.0.0.1", Threads(1, 1), scheduler="tcp://h:1", folder="/a b", nanny=True)
    settings, words = str(made).split(" dask ", 1)
    assert settings == "DASK_HETERPS__WORKER__BLAS_THREADS=1"
    assert tuple(shlex.split("dask " + words)) == made.words


@given(st.lists(st.sets(st.sampled_from(["server", "io"]), min_size=1), min_size=1, max_size=5), st.integers(0, 9))
def test_workers_go_where_they_may_and_evenly(allowed: list[set[str]], count: int) -> None:
    machines = [Machine(f"10.0.0.{i}", tuple(sorted(pools))) for i, pools in enumerate(allowed)]
    if not any("io" in pools for pools in allowed):
        return
    placed = spread(machines, {"io": count})
    assert len({name for _, _, name in placed}) == count
    assert all("io" in machine.pools for machine, _, _ in placed)
    per_machine = Counter(machine.address for machine, _, _ in placed)
    numbers = [per_machine[machine.address] for machine in machines if "io" in machine.pools]
    assert max(numbers) - min(numbers) <= 1


def test_hosts_that_make_no_sense_are_named() -> None:
    with pytest.raises(ClusterError, match="no pool 'tpu'"):
        parse_hosts("10.0.0.1=tpu")
    with pytest.raises(ClusterError, match="no host in ' , '"):
        parse_hosts(" , ")
    with pytest.raises(ClusterError, match="no host allows it"):
        spread(parse_hosts("10.0.0.1=io"), {"gpu": 1})


def test_the_command_prints_every_machines_part(tmp_path: pathlib.Path) -> None:
    words = ["launch", "--tls", "--certs", str(tmp_path / "certs"), "--servers", "1", "--io", "2", "--gpus", "1"]
    words += ["--hosts", "10.0.0.5=server+io,10.0.0.6=io,10.0.0.7=gpu", "train.py", "--epochs", "2"]
    text = CliRunner().invoke(main, words).output
    parts = dict(part.split("\n", 1) for part in text.split("# ") if part.startswith(("on ", "where ")))
    assert parts["on 10.0.0.5"].count("dask scheduler") == 1
    assert parts["on 10.0.0.5"].count("HPS_SERVER=1") == parts["on 10.0.0.5"].count("HPS_IO=1") == 1
    assert parts["on 10.0.0.6"].count("dask worker") == parts["on 10.0.0.6"].count("HPS_IO=1") == 1
    assert "GPU=1" in parts["on 10.0.0.7"]
    assert parts["where the script runs"].rstrip().endswith("python train.py --epochs 2")
    assert "tls://10.0.0.5:8786" in parts["where the script runs"]


def test_the_command_refuses_open_machines_without_tls() -> None:
    result = CliRunner().invoke(main, ["launch", "--hosts", "10.0.0.5", "train.py"])
    assert result.exit_code == 1
    assert "10.0.0.5: without TLS" in result.output


def test_mistyped_options_are_named_and_the_scripts_own_are_not_touched(monkeypatch) -> None:
    mistyped = CliRunner().invoke(main, ["launch", "--iO", "2", "train.py"])
    assert (mistyped.exit_code, "--iO" in mistyped.output) == (2, True)
    seen = []
    monkeypatch.setattr(launcher, "launch_cluster", lambda launch, tell: seen.append(launch) or 3)
    assert CliRunner().invoke(main, ["launch", "--io", "2", "-m", "pkg.train", "--io", "7"]).exit_code == 3
    assert seen[0].script == ("-m", "pkg.train", "--io", "7")
    assert seen[0].pools == {"server": 1, "io": 2, "compute": 0, "gpu": 0}


def test_a_launch_needs_workers(tmp_path: pathlib.Path) -> None:
    (script := tmp_path / "train.py").touch()
    result = CliRunner().invoke(main, ["launch", "--servers", "0", "--io", "0", str(script)])
    assert (result.exit_code, "ask for at least one" in result.output) == (1, True)


def test_the_help_has_examples() -> None:
    assert "heterps launch --servers 1 --io 2" in CliRunner().invoke(main, ["launch", "--help"]).output


def test_dask_has_the_command_too() -> None:
    project = tomllib.loads((pathlib.Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    group = click.Group("dask")
    for name, value in project["entry-points"]["dask_cli"].items():
        _register_command_ep(group, EntryPoint(name, value, "dask_cli"))
    result = CliRunner().invoke(group, ["heterps", "launch", "--help"])
    assert result.exit_code == 0
    assert "--servers" in result.output
