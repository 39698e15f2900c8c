"""The program as shells start it: Ctrl-C before it has begun, closed output, terminals that know few letters."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

HETERPS = (sys.executable, "-m", "heterps")
CLOSED = 'exec "$@" >&- 2>/dev/null <&-'
# Tells when the imports of the command begin, and takes longer over them than anybody takes for Ctrl-C.
SLOW_IMPORT = """
import os, sys, time
import heterps.__main__ as program
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "heterps.cli":
            os.write(1, b"imports\\n")
            time.sleep(60)
sys.meta_path.insert(0, Slow())
program.main()
"""


def heed(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)


def test_an_interrupt_while_modules_are_imported_is_one_line() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_IMPORT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: heed(signal.SIGINT),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "imports\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=90)
    assert (process.returncode, told) == (130, "stopped by SIGINT\n")


def test_closed_streams_go_nowhere(tmp_path: Path) -> None:
    command = ["sh", "-c", CLOSED, "sh", *HETERPS, "graph", "wide_deep", "--svg", str(tmp_path / "graph.svg")]
    assert subprocess.run(command, check=False, timeout=120).returncode == 0
    assert (tmp_path / "graph.svg").read_text().lstrip().startswith("<svg")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_our_letters_shows_others(encoding: str) -> None:
    environment: Mapping[str, str] = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [*HETERPS, "plan", "wide_deep", "--batch-size", "1024"], env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert b"Plan: one fused stage" in done.stdout
    assert ("µs".encode(encoding, "replace")) in done.stdout


def test_training_whose_output_nobody_reads_is_trained_to_its_end_and_saved(tmp_path: Path) -> None:
    rows = "".join(f"{n % 2},c{n % 7},{n % 11 / 10}\n" for n in range(400))
    (tmp_path / "data.csv").write_text("click,colour,size\n" + rows)
    words = ["train", "wide_deep", "--data", "data.csv", "--set", "hidden=4", "--epochs", "2", "--engine", "inline"]
    reader, writer = os.pipe()
    os.close(reader)  # as behind head -1, which has read its line
    done = subprocess.run(
        [*HETERPS, *words, "--out", "model"], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, timeout=240,
        check=False, text=True,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "model" / "model.json").is_file()


def test_a_script_that_is_not_there_is_missed_before_a_cluster_is_started(tmp_path: Path) -> None:
    done = subprocess.run(
        [*HETERPS, "launch", "--io", "1", "train.py"], cwd=tmp_path, capture_output=True, timeout=120, text=True
    )
    assert (done.returncode, done.stderr) == (1, f"Error: there is no script train.py in {tmp_path}\n")
    assert list(tmp_path.iterdir()) == []
