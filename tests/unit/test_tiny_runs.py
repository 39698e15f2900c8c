"""What a first training compiles: known before it begins, and no more than it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# The demo's model and data, in a process that has loaded no loop: first the tiny runs, then a training.
DEMO = """
import inspect, json, sys
sys.path.insert(0, ".")
from examples.adult_wide_deep import BATCH_SIZE, DENSE, DIM, HIDDEN, SPARSE, hps, wide_deep
from heterps.compiled import _Loop, compiling
from heterps.tiny_runs import PARTS, missing

loaded = {}  # lines of loops, and of all that they call: what is read from the cache has been compiled with it
def note(loop):
    source, name = loop.py_func, f"{loop.__module__}.{loop.__name__}"
    if name not in loaded:
        loaded[name] = len(inspect.getsourcelines(source)[0])
        for used in source.__code__.co_names:
            if hasattr(source.__globals__.get(used), "py_func"):
                note(source.__globals__[used])

compile_ = _Loop.compile
def noted(loop, sig):
    note(loop)
    return compile_(loop, sig)
_Loop.compile = noted

graph = wide_deep(slots=19, dense=5, dim=DIM, hidden=HIDDEN)
plan = hps.plan(graph, hps.Hardware.local(), batch_size=BATCH_SIZE)
planned = dict(loaded)
with hps.launch(plan, engine="inline", sparse=SPARSE, dense=DENSE) as session:
    for part in PARTS.values():
        part(session.job.needs)
    ahead = dict(loaded)
    still_missing = missing(session.job.needs)
    for progress in session.train(hps.adult("train").shuffle("local")):
        pass
print(json.dumps([planned, ahead, loaded, still_missing, compiling()]))
"""


@pytest.fixture(scope="module")
def demo() -> list[Any]:
    done = subprocess.run([sys.executable, "-c", DEMO], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_planning_a_small_model_compiles_nothing(demo: list[Any]) -> None:
    assert demo[0] == {}


def test_tiny_runs_compile_all_but_what_reads(demo: list[Any]) -> None:
    _, ahead, loaded, still_missing, compiling = demo
    assert {name for name in loaded.keys() - ahead.keys() if not name.startswith("heterps.data.")} == set()
    assert (still_missing, compiling) == ([], "")


def test_a_demo_compiles_no_more_than_it_did(demo: list[Any]) -> None:
    """Its first minute is what this is: who adds to it knows why, and says so here.

    78 until four loops over looked up rows became parts of two, of which each is compiled once for all lookups. 80, of
    1,200 lines, until index, rows and the work on them had a loop each: loops of a table and lookups take as long to
    compile as before (10.2 s of CPU against 10.6).
    """
    loaded = demo[2]
    assert len(loaded) <= 90
    assert sum(loaded.values()) <= 1260
