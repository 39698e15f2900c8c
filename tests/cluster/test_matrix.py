"""What can go wrong, played on real processes in Sync and Async, with one copy of each shard host and with two.

``make test`` plays every fault once: the deals are such that each kind of fault meets both modes and both numbers of
copies, and each mode each number. The whole table is for ``make soak``.
"""

import ast
import itertools
import json
import sys
from pathlib import Path

import pytest

from heterps.soak.network import can_part
from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]

# What has to be there before one can leave is added first.
DEALS = [
    ("sync", 2, ["kill server", "drop io", "add io", "retire io"]),
    ("async", 1, ["kill io", "drop server", "add server", "retire server"]),
    ("sync", 1, ["kill server", "slow io", "add io", "term io"]),
    ("async", 2, ["kill io", "slow server", "add server", "term server"]),
]
EVERYTHING = [
    f"{fault} {role}"
    for role in ("server", "io")
    for fault in ("kill", "drop", "slow", "freeze", "add", "retire", "add", "term")
]

TESTS = Path(__file__).parents[1]
ROWS = {
    "shard host killed": "cluster/test_matrix.py::test_each_fault_once",
    "io worker killed": "cluster/test_matrix.py::test_each_fault_once",
    "compute worker killed": "cluster/test_faults.py::test_a_stage_worker_is_killed",
    "scheduler killed": "cluster/test_faults.py::test_the_scheduler_is_killed_and_another_launch_goes_on",
    "worker frozen": "cluster/test_faults.py::test_a_frozen_worker_is_lost_to_the_run",
    "worker frozen and thawed": "cluster/test_matrix.py::test_each_fault_once",
    "worker cut off": "cluster/test_matrix.py::test_all_faults_of_a_mode",
    "push duplicated, reordered, late": "unit/simulator/test_hunt.py",
    "out of memory": "cluster/test_memory.py",
    "checkpoint corrupt": "cluster/test_faults.py::test_a_host_is_killed_and_the_cut_to_return_to_is_broken",
    "driver killed": "cluster/test_orphans.py",
    "open port": "cluster/test_exposure.py",
    "worker retired, SIGTERM": "cluster/test_going.py::test_workers_come_and_go",
}
"""Where each fault that needs processes is played; the others have unit tests."""


def play(launched: Launched, deals: list, pace: str, *launch: str, limit: float) -> list:
    script = f"""
    from heterps.soak.rounds import Pace
    from tests.cluster.playing import play

    play({deals!r}, {pace})
    """
    process = launched.start(script, "--servers", "2", "--io", "2", "--max-restarts", "100")
    out, err = process.communicate(timeout=limit)
    assert process.returncode == 0, f"{out}\n{err}"
    launched.wait_until_gone()
    found = json.loads((launched.folder / "result.json").read_text())
    for mode, replicas, faults, played in found:
        assert sorted(fault for fault, _ in played) == sorted(faults), f"{mode} {replicas}\n{out}"
        assert all(exact for _, exact in played), f"{mode} {replicas}\n{out}"
    return found


def test_deals_have_every_pair() -> None:
    kinds = {fault.split()[0] for _, _, faults in DEALS for fault in faults}
    pairs = {
        (fault.split()[0], what) for mode, replicas, faults in DEALS for fault in faults for what in (mode, replicas)
    }
    assert pairs == set(itertools.product(kinds, ("sync", "async", 1, 2)))
    assert {(mode, replicas) for mode, replicas, _ in DEALS} == set(itertools.product(("sync", "async"), (1, 2)))
    frozen = {"freeze server", "freeze io"}  # each costs the limit of a call
    assert {fault for _, _, faults in DEALS for fault in faults} == set(EVERYTHING) - frozen


def test_every_row_has_its_test() -> None:
    for row, place in ROWS.items():
        file, _, name = place.partition("::")
        there = {
            found.name for found in ast.parse((TESTS / file).read_text()).body if isinstance(found, ast.FunctionDef)
        }
        assert any(found.startswith(name or "test_") for found in there), row


def test_each_fault_once(launched: Launched) -> None:
    play(launched, DEALS, "Pace(round_s=6.0, between_s=(0.1, 0.4))", limit=280)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_all_faults_of_a_mode(launched: Launched, mode: str, replicas: int) -> None:
    """With links that can be cut where root allows it."""
    words = [
        "--mode",
        mode,
        "--replicas",
        str(replicas),
        "--minutes",
        "25",
        "--each",
        *(["--bits"] if mode == "sync" else []),
    ]
    faults = ", ".join(EVERYTHING + (["part server", "part io"] if can_part() else []))
    process = launched.start_words(sys.executable, "-m", "heterps", "soak", *words, "--faults", faults)
    out, err = process.communicate(timeout=1700)
    assert process.returncode == 0, f"{out}\n{err}"
    (line,) = map(json.loads, (launched.folder / "soak.jsonl").read_text().splitlines())
    assert set(line["hits"]) == set(faults.split(", ")), out
    launched.wait_until_gone()
