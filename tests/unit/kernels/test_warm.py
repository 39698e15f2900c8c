"""The compile cache: one form per loop, all of them warmed, and a second process compiles nothing."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.cli import main
from heterps.kernels.jit import LOOPS
from heterps.kernels.warm import warm
from heterps.testing.op_contract import cotangent_of
from heterps.testing.zoo_cases import CASES

COUNT = """
import json
from heterps.kernels import warm
warm._graphs = lambda: [warm._pooled()]  # a few loops tell as much as all of them
done = [w for w in warm.warm() if w.compiled or w.cached]
print(json.dumps([sum(w.compiled for w in done), sum(w.cached for w in done), len(done)]))
"""


def counted(cache: Path) -> list[int]:
    run = subprocess.run(
        [sys.executable, "-c", COUNT],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    compiled, cached, loops = counted(tmp_path)
    assert (compiled, cached) == (loops, 0)
    assert loops > 5
    assert counted(tmp_path) == [0, loops, loops]


def forms() -> dict[str, int]:
    """Compiled float32 forms by loop."""
    return {
        name: sum("float32" in str(s) or "float" not in str(s) for s in loop.signatures) for name, loop in LOOPS.items()
    }


def test_warming_covers_every_loop_with_one_form() -> None:
    warm()
    assert set(forms().values()) == {1}


@pytest.mark.parametrize("name", sorted(CASES))
@given(data=st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_op_in_float32_compiles_anything_after_warming(name: str, data: st.DataObject) -> None:
    warm()
    before = forms()
    case = data.draw(CASES[name])
    dy = cotangent_of(case)
    case.run(cotangent=None if dy is None else dy.astype(np.float32), dtype="float32")
    assert forms() == before


def test_the_command_says_what_it_did() -> None:
    result = CliRunner().invoke(main, ["warm"])
    assert result.exit_code == 0
    assert "heterps.kernels.ops.row_loops.gather" in result.output
    assert "loops" in result.output


def test_the_command_says_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("heterps.cli.warm"), "PARTS", ("heterps.nothing.warm",))
    result = CliRunner().invoke(main, ["warm"])
    assert result.exit_code == 1
    assert "the loops of heterps.nothing could not be compiled: ModuleNotFoundError" in result.output
