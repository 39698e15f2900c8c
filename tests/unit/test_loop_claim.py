"""Processes that want one loop at once: one compiles it, in files that hold what their names say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heterps.loop_claim import claimed

LOOP = """
from heterps.compiled import entry_loop

@entry_loop
def total(values):
    result = values.dtype.type(0)
    for i in range(values.size):
        result += values[i]
    return result
"""
# Begun together: a line from the parent is the starting shot.
WANT = """
import json, sys
import numpy as np
from the_loop import total
kinds = ["int32", "float32", "float64"]
print("ready", flush=True)
sys.stdin.readline()
found = {kind: float(total(np.arange(5, dtype=kind))) for kind in kinds}
print(json.dumps([sum(total.stats.cache_misses.values()), found]))
"""

HOLD = """
import sys
from heterps.loop_claim import claimed
with claimed(sys.argv[1], lambda: False):
    print("held", flush=True)
    input()
"""


def start(folder: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": f"{folder}{os.pathsep}{os.getcwd()}"}
    words = [sys.executable, "-c", WANT]
    return subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def raced(folder: Path, processes: int) -> list[int]:
    """Let processes want the same forms at once; return how many each compiled."""
    running = [start(folder) for _ in range(processes)]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    told = [json.loads(each.communicate()[0]) for each in running]
    assert all(set(found.values()) == {10.0} for _, found in told)
    return [compiled for compiled, _ in told]


def test_processes_share_what_they_compile(tmp_path: Path) -> None:
    (tmp_path / "the_loop.py").write_text(LOOP)
    assert sum(raced(tmp_path, 2)) == 3
    assert not list(tmp_path.rglob("*.claim"))


def test_a_claim_is_given_back_by_the_death_of_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "a.claim")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with claimed(path, lambda: False, patience_s=0.0) as held:
        assert not held  # nobody waits for ever
    holder.kill()
    holder.communicate()
    with claimed(path, lambda: False) as held:
        assert held
    assert not os.path.exists(path)


def test_who_waits_stops_when_it_is_there(tmp_path: Path) -> None:
    path, asked = str(tmp_path / "a.claim"), []

    def there() -> bool:
        asked.append(1)
        return len(asked) > 2

    with claimed(path, lambda: False) as first, claimed(path, there) as second:
        assert (first, second) == (True, False)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), claimed(str(tmp_path / "none" / "a.claim"), lambda: False):
        pass
