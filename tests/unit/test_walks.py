"""Pages that are walks: their files are written, and their commands run, in an empty folder and in their order."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r'^```(\w+)(?: title="([\w./-]+)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)
PROGRAMS = {
    "python": [sys.executable],
    "heterps": [sys.executable, "-m", "heterps"],
    "pytest": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
    "curl": ["curl", "--silent", "--fail-with-body"],
}
NAMED = (ROOT / "docs" / f"{name}.md" for name in ("extending", "migration", "own_data"))
WALKS = sorted([*(ROOT / "docs/tutorials").glob("*.md"), *NAMED])


class Walk:
    """One page, in a folder; what it starts in the background ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.behind = folder, list[subprocess.Popen[str]]()
        patience = {f"DASK_HETERPS__TIMEOUTS__{name}": "180s" for name in ("CONNECT", "WORKERS", "CALL")}
        self.environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | patience

    def run(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        if not words or words[0] == "pip":
            return
        assert words[0] in PROGRAMS, f"nobody runs {words[0]!r} here"
        how = {"cwd": self.folder, "env": self.environment, "text": True, "stdin": subprocess.DEVNULL}
        command = [*PROGRAMS[words[0]], *words[1:]]
        if words[-1] == "&":
            self.behind.append(subprocess.Popen(command[:-1], **how))
            return
        done = subprocess.run(command, capture_output=True, timeout=500, check=False, **how)
        assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"

    def close(self) -> None:
        for process in self.behind:
            process.terminate()
            process.wait(timeout=60)


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", WALKS, ids=[page.stem for page in WALKS])
def test_a_page_is_walked_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(page.read_text())
    if any(line.startswith("curl") for _, _, text in blocks for line in text.splitlines()) and not shutil.which("curl"):
        pytest.skip("curl is not installed")
    if page.stem == "extending":
        shutil.copytree(ROOT / "examples/extending", tmp_path, dirs_exist_ok=True)
    walk = Walk(tmp_path)
    try:
        for kind, title, text in blocks:
            if title:
                (tmp_path / title).write_text(text)
            elif kind == "sh":
                for line in text.replace("\\\n", " ").splitlines():
                    walk.run(line)
    finally:
        walk.close()


@pytest.mark.parametrize("page", WALKS, ids=[page.stem for page in WALKS])
def test_every_program_of_a_walk_is_one_that_is_run(page: Path) -> None:
    """A block without a title is run by nobody: ``py`` marks what is only shown."""
    blocks = BLOCK.findall(page.read_text())
    assert [text for kind, title, text in blocks if kind in ("python", "toml") and not title] == []
    lines = [line for kind, _, text in blocks if kind == "sh" for line in text.splitlines()]
    assert any(line.split()[0] in PROGRAMS for line in lines if line)
    for _, title, text in blocks:
        if title.endswith(".py"):
            compile(text, title, "exec")
