from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import heterps

PACKAGE = Path(heterps.__file__).parent
# The loop that sorts ids by partition; it hashes them with what it has inlined from two other files.
SORT = """
import json, sys
import numpy as np
from heterps.tables.loops.splitting import split_ids
order, bounds = np.empty(64, np.int32), np.empty(5, np.int64)
split_ids(np.arange(64, dtype=np.uint64), np.arange(4, dtype=np.int32), order.copy(), order, bounds)
stats = split_ids.stats
counts = [sum(stats.cache_misses.values()), sum(stats.cache_hits.values())]
print(json.dumps([order.tolist(), *counts, "numba.np.linalg" in sys.modules]))
"""


def run_in(folder: Path) -> tuple[list[int], int, int, bool]:
    """Return what the loop gave, how often it was compiled and read, and whether what compiles was imported."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", SORT], cwd=folder, env=env, capture_output=True, text=True, check=True)
    order, compiled, cached, could_compile = json.loads(done.stdout)
    return order, compiled, cached, could_compile


def test_a_change_of_an_inlined_function_compiles_its_callers_anew(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "heterps", ignore=shutil.ignore_patterns("__pycache__"))
    before, *first = run_in(tmp_path)
    again, *second = run_in(tmp_path)
    assert (first, second) == ([1, 0, True], [0, 1, False])
    assert again == before
    mixing = tmp_path / "heterps/mixing.py"
    text = mixing.read_text()
    inlined = text[text.index("def finalise_word") :]
    assert "np.uint64(30)" in inlined
    mixing.write_text(text.replace(inlined, inlined.replace("np.uint64(30)", "np.uint64(29)")))
    changed, *third = run_in(tmp_path)
    assert third == [1, 0, True]
    assert changed != before
