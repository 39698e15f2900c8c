"""The programs of README and docs run from a wheel, installed without extras, in an empty folder."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.walking import Walk, free_port

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.full, pytest.mark.timeout(1200), pytest.mark.xdist_group("wheel")]
# One program each, from top to bottom; `py` marks fragments. testing.md is a test file: test_docs.py runs it.
PAGES = ("README.md", *(f"docs/{name}.md" for name in ("data", "metrics", "ops", "tables", "training")))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: str, *kinds: str) -> list[tuple[str, str]]:
    """Return the fenced parts of a page that are of some kinds, in order."""
    return [(kind, text) for kind, text in BLOCK.findall((ROOT / page).read_text()) if kind in kinds]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of a copy, install it into an environment of its own; return the folder of its programs."""
    folder = tmp_path_factory.mktemp("wheel")
    wanted = [ROOT / name for name in ("heterps", "graphs", "pyproject.toml", "README.md", "LICENSE")]
    for path in wanted:
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / "source" / path.name, **_links(path))
    run(folder, sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", "made", "./source")
    run(folder, sys.executable, "-m", "venv", "env")
    (wheel,) = (folder / "made").glob("heterps-*.whl")
    run(folder, "env/bin/python", "-m", "pip", "install", "-q", str(wheel))
    run(folder, "env/bin/heterps", "warm", "--quiet")
    return folder / "env" / "bin"


def _links(path: Path) -> dict[str, object]:
    path = Path(path)
    return {"symlinks": True, "ignore": shutil.ignore_patterns("__pycache__", "*.nb?")} if path.is_dir() else {}


def outside() -> dict[str, str]:
    """Return the environment variables that have nothing to do with this environment."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE", "PYTEST"))}


def run(folder: Path, *words: str) -> str:
    """Run a program that must succeed, with nothing of this environment."""
    # Everything compiles or imports at first, on a machine that may have other work.
    patience = {f"DASK_HETERPS__TIMEOUTS__{name}": "180s" for name in ("CONNECT", "WORKERS", "CALL")}
    environment = (
        outside() | patience | {"PATH": f"{Path(words[0]).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    )
    how = {"cwd": folder, "env": environment, "stdin": subprocess.DEVNULL}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, **how)
    if done.returncode and "pip" in words and re.search("NewConnectionError|Temporary failure in name", done.stderr):
        pytest.skip("no package registry can be reached")
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def user_files(folder: Path) -> None:
    """Write the files that the programs take for the user's."""
    rng = np.random.default_rng(0)
    for name in ("train-0.tsv", "valid.tsv"):
        numbers, codes = rng.integers(0, 9, (600, 13)), rng.integers(0, 99, (600, 26))
        rows = [[i % 2, *numbers[i], *(f"{code:05x}" for code in codes[i])] for i in range(600)]
        (folder / name).write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    (folder / "clicks-0.csv").write_text("city,age,device,visits,tags,click\nOslo,31,phone,5,a|b,1\nRome,x,,,,0\n")


@pytest.mark.parametrize("page", PAGES)
def test_programs_run_from_a_wheel(page: str, installed: Path, tmp_path: Path) -> None:
    user_files(tmp_path)
    programs = [text for _, text in blocks(page, "python")]
    assert programs
    (tmp_path / "program.py").write_text("\n\n".join(programs))
    run(tmp_path, str(installed / "python"), "program.py")


def test_the_first_hour_runs_in_its_order(installed: Path, tmp_path: Path) -> None:
    steps = blocks("docs/quickstart.md", "sh", "python")
    for number, (kind, text) in enumerate(steps):
        if kind == "python":
            (tmp_path / f"step{number}.py").write_text(text)
            run(tmp_path, str(installed / "python"), f"step{number}.py")
            continue
        for line in text.splitlines():
            words = line.partition("#")[0].split()
            if words[:2] == ["heterps", "launch"]:
                shutil.copy(tmp_path / f"step{number - 1}.py", tmp_path / "train_census.py")
            if words[0] == "heterps":
                run(tmp_path, str(installed / "heterps"), *words[1:])
    assert (tmp_path / "predictions.parquet").exists()


def test_a_csv_becomes_a_service(installed: Path, tmp_path: Path) -> None:
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    Walk(tmp_path, str(installed / "python"), outside()).along((ROOT / "docs/own_data.md").read_text())


@pytest.fixture
def cluster(installed: Path, tmp_path: Path) -> Iterator[int]:
    """Start what README says, on a port of our own."""
    (commands,) = [text for _, text in blocks("README.md", "") if text.startswith("dask scheduler")]
    port = free_port()
    ours = commands.replace(":8786", f":{port}").replace("--port 8786", f"--port {port}").replace(":8787", ":0")
    started = []
    try:
        for line in ours.replace("\\\n", " ").strip().splitlines():
            with open(tmp_path / f"log{len(started)}.txt", "w") as log:
                words = [str(installed / "dask"), *line.split()[1:]]
                started.append(subprocess.Popen(words, cwd=tmp_path, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
            _wait_for(port)
        yield port
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=60)


def _wait_for(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the scheduler does not listen")


def test_the_program_for_a_cluster_runs_on_one(cluster: int, installed: Path, tmp_path: Path) -> None:
    user_files(tmp_path)
    (_, program), *_ = blocks("docs/cluster.md", "python")
    (tmp_path / "program.py").write_text(program.replace(":8786", f":{cluster}"))
    out = run(tmp_path, str(installed / "python"), "program.py")
    assert "600 samples" in out


def test_the_estimator_takes_frames_of_pandas(installed: Path, tmp_path: Path) -> None:
    """The last test: what others do without is installed beside."""
    run(tmp_path, str(installed / "python"), "-m", "pip", "install", "-q", "pandas", "scikit-learn")
    ((_, program),) = blocks("docs/estimator.md", "python")
    (tmp_path / "program.py").write_text(program)
    run(tmp_path, str(installed / "python"), "program.py")
