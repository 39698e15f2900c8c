"""Where loops are kept when nothing of the user's can be written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heterps.loop_folder import loop_folder

NOWHERE = """
import json
import numpy as np
from numba.core.caching import CacheImpl
from heterps.data.text.delimited import valid_utf8
# As with a home and a package that are others': numba is left with a folder that was named, and none was.
CacheImpl._locator_classes = [kind for kind in CacheImpl._locator_classes if "UserProvided" in kind.__name__]
valid_utf8(np.zeros(4, np.uint8), 0, 4)
print(json.dumps([sum(count.values()) for count in (valid_utf8.stats.cache_misses, valid_utf8.stats.cache_hits)]))
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_loops_are_compiled_once_although_numba_finds_no_folder(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | {"TMPDIR": str(tmp_path)}
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", NOWHERE], env=env, capture_output=True, check=True).stdout)
        for _ in range(2)
    ]
    assert runs == [[1, 0], [0, 1]]


def test_the_folder_is_nobody_elses(room: Path) -> None:
    found = Path(loop_folder())
    assert found == Path(loop_folder()) == room / f"heterps-loops-{os.getuid()}"
    assert found.stat().st_mode & 0o777 == 0o700
    found.chmod(0o777)
    assert Path(loop_folder()) != found


def test_a_link_that_somebody_put_there_is_not_followed(room: Path) -> None:
    (room / "elsewhere").mkdir(mode=0o700)
    (room / f"heterps-loops-{os.getuid()}").symlink_to(room / "elsewhere")
    assert Path(loop_folder()).parent == room
    assert not (room / "elsewhere").samefile(loop_folder())
