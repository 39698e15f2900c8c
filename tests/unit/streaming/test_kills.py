"""A stream that is killed anywhere and started again: no pass twice, none lost, the same tables to the bit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def killed(folder: Path, seed: int, renames: list[int], random_kills: int) -> dict[str, object]:
    words = [str(folder), str(seed), json.dumps(renames), str(random_kills)]
    program = [sys.executable, "-m", "tests.unit.streaming.kill_stream", *words]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_kills_at_chosen_moments(tmp_path: Path) -> None:
    """While a base is written, and again soon after the start."""
    told = killed(tmp_path, 0, [27], 0)
    assert told["differences"] == []
    assert told["kills"] == 2


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_fifty_kills_at_random_moments(tmp_path: Path) -> None:
    told = killed(tmp_path, 20261101, [], 50)
    assert told["differences"] == []


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_kill_at_every_lasting_effect(tmp_path: Path) -> None:
    told = killed(tmp_path, 0, list(range(56)), 0)
    assert told["differences"] == []
    assert told["kills"] > 80
