"""What compiled libraries print is kept out of what Python prints, and Python's own words are not."""

import subprocess
import sys

PRINTED = """
import ctypes
from heterps.planner.solve.own_words import own_words_only

print("before", end=" ", flush=True)
with own_words_only:
    ctypes.CDLL(None).printf(b"words of a library\\n")
    print("meanwhile", end=" ", flush=True)
    with own_words_only:
        pass
    ctypes.CDLL(None).printf(b"more of them\\n")
ctypes.CDLL(None).printf(b"words of others ")
ctypes.CDLL(None).fflush(None)
print("after")
"""
# Coefficients of many orders of magnitude: HiGHS 1.12 says "HighsMipSolverData::transformNewIntegerFeasibleSolution".
PROGRAM = """
import numpy as np
from heterps.planner.solve.integer_program import IntegerProgram

rng = np.random.default_rng(36)
n, m = (int(rng.integers(*ends)) for ends in ((4, 25), (2, 12)))
there, size = rng.random((m, n)) < 0.5, rng.uniform(-1, 1, (m, n))
rows = np.where(there, size * 10.0 ** rng.integers(-4, 5, (m, n)), 0)
whole = rng.integers(0, 2, n)
high = rows @ np.where(whole, rng.integers(0, 6, n), rng.uniform(0, 5, n))
low, cost = np.where(rng.random(m) < 0.5, high, -np.inf), rng.uniform(-1, 1, n)
program = IntegerProgram()
columns = [(program.integer if whole[v] else program.continuous)(cost[v], 10.0) for v in range(n)]
for row, *ends in zip(rows, low, high):
    program.row(zip(columns, row), *ends)
assert program.solve(10.0) is not None
"""


def _printed(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_words_of_libraries_are_dropped_and_no_others():
    assert _printed(PRINTED) == "before meanwhile words of others after\n"


def test_solving_a_program_prints_nothing():
    assert _printed(PROGRAM) == ""


def test_a_closed_output_stays_closed():
    script = "import os\nos.close(1)\nfrom heterps.planner.solve.own_words import own_words_only\n"
    assert _printed(script + "with own_words_only:\n    pass") == ""
