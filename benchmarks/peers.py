"""The peers' environments: one virtual environment each, built from the package registry on first use.

Peers are never dependencies of the project. Their environments live below ``benchmarks/.peers`` (git-ignored), or where
the environment variable ``HETERPS_PEERS`` says, so that several checkouts can share them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "torch": ("torch==2.13.0", "numpy", "pyarrow"),
    "fbgemm": ("torch==2.13.0", "fbgemm-gpu-cpu==1.8.0", "numpy"),
    "tfra": ("tensorflow==2.16.2", "tf-keras==2.16.0", "tensorflow-recommenders-addons==0.8.1"),
    # The last wheel with a parameter server; it needs the older NumPy and protobuf.
    "paddle": ("paddlepaddle==2.6.2", "numpy<2", "setuptools<81", "protobuf==4.25.8"),
}
# The newest Python for which every pinned wheel exists.
NEWEST_PYTHON = (3, 12)


class PeerError(RuntimeError):
    """A peer's environment cannot be built here; the run goes on without it and says so."""


def folder() -> Path:
    """Where the environments live."""
    return Path(os.environ.get("HETERPS_PEERS") or Path(__file__).parent / ".peers")


def ensure(name: str) -> Path:
    """Return the Python of a peer's environment, building the environment if it is missing or pinned differently.

    Raises
    ------
    PeerError
        No suitable Python, or the registry does not have the pinned packages; the message holds pip's last lines.
    """
    home = folder() / name
    python, stamp = home / "bin" / "python", home / "requirements.txt"
    wanted = "\n".join(REQUIREMENTS[name]) + "\n"
    if not (python.exists() and stamp.exists() and stamp.read_text() == wanted):
        _run([_base_python(), "-m", "venv", str(home)], name)
        _run([str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS[name]], name)
        stamp.write_text(wanted)
    return python


def _base_python() -> str:
    if sys.version_info[:2] <= NEWEST_PYTHON:
        return sys.executable
    for minor in (12, 11):
        if found := shutil.which(f"python3.{minor}"):
            return found
    raise PeerError("the peers' wheels need Python 3.11 or 3.12: put python3.12 on PATH")


def _run(command: list[str], name: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise PeerError(f"peer {name!r}: {' '.join(command[1:4])} failed: {last}")


if __name__ == "__main__":
    for peer in sys.argv[1:] or REQUIREMENTS:
        print(peer, ensure(peer))
