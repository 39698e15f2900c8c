"""Pages that are walks: their files are written and their commands run in a folder, in the order of the page."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r'^```(\w+)(?: title="([\w./-]+)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
PORT = "8199"  # of services, in all pages
CURL = ("curl", "--silent", "--fail-with-body")


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def programs(python: str) -> dict[str, Sequence[str]]:
    """What the commands of a page are, with a Python of the test's choice."""
    return {"python": [python], "heterps": [python, "-m", "heterps"], "pytest": [python, *PYTEST], "curl": CURL}


def commands(text: str) -> list[str]:
    """Return the commands of a block: one ends with its line unless a backslash or an open quote says otherwise."""
    found, open_ = [], ""
    for line in text.replace("\\\n", " ").splitlines():
        open_ = f"{open_}\n{line}" if open_ else line
        if open_.count("'") % 2 == 0:
            found.append(open_)
            open_ = ""
    return [*found, open_] if open_ else found


class Walk:
    """One page, in a folder; what it starts in the background ends with it.

    Parameters
    ----------
    folder
        Where it is walked.
    python
        The Python whose packages it finds.
    given
        Environment of its programs; by default that of the test, and this repository.
    """

    def __init__(self, folder: Path, python: str = sys.executable, given: Mapping[str, str] | None = None) -> None:
        self.folder, self.programs = folder, programs(python)
        self.behind: list[subprocess.Popen[str]] = []
        patience = {f"DASK_HETERPS__TIMEOUTS__{name}": "180s" for name in ("CONNECT", "WORKERS", "CALL")}
        before = os.environ | {"PYTHONPATH": str(ROOT)} if given is None else dict(given)
        self.environment = before | {"OMP_NUM_THREADS": "1"} | patience

    def along(self, page: str) -> None:
        """Walk a page from top to bottom, with a port that is free in place of the one it names."""
        try:
            for kind, title, text in BLOCK.findall(page.replace(PORT, str(free_port()))):
                if title:
                    (self.folder / title).write_text(text)
                elif kind == "sh":
                    for line in commands(text):
                        self.run(line)
        finally:
            for process in self.behind:
                process.terminate()
                process.wait(timeout=60)

    def run(self, line: str) -> None:
        """Run a command, which must succeed; one that ends in ``&`` goes on beside the others."""
        words = shlex.split(line, comments=True)
        if not words or words[0] == "pip":
            return
        assert words[0] in self.programs, f"nobody runs {words[0]!r} here"
        command = [*self.programs[words[0]], *words[1:]]
        if words[-1] == "&":
            self.behind.append(subprocess.Popen(command[:-1], cwd=self.folder, env=self.environment, text=True))
            return
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, text=True, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=500, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
