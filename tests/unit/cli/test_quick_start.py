"""What is imported before anything is asked for; how long it takes is for ``benchmarks/first_minute.py``."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from heterps.cli import _described, main
from heterps.cli._short_helps import described
from heterps.device import gpu_available

HEAVY = ("dask", "distributed", "fsspec", "networkx", "numba", "numpy", "pyarrow", "rich", "scipy", "yaml")
IMPORT = "import heterps; dir(heterps)"
HELP = "import contextlib; from heterps.cli import main\nwith contextlib.suppress(SystemExit): main(['--help'])"

# Nothing is trained: compiling, where a machine has no loops yet, imports much. On one core nobody compiles ahead.
LAUNCH = """
import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import heterps as hps
from heterps.models import wide_deep
with hps.launch(wide_deep(slots=19, dense=5, hidden=(8,)), engine="dask", sparse=hps.SGD(0.1)) as session:
    hps.adult("train").schema
"""
TRAIN = "from heterps.cli import train"
OTHER_READERS = (
    "columnar.json_lines",
    "columnar.parquet_files",
    "sources.images",
    "study.importance",
    "text.slot_text",
)
NOT_FOR_TRAINING = ("cupy", "networkx", "numba.np.linalg", "pyarrow.compute", "pyarrow.parquet", "scipy.linalg")


def imported(program: str) -> set[str]:
    told = "\nimport json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program + told], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("program", [IMPORT, HELP], ids=["import", "help"])
def test_nothing_heavy_is_imported_before_it_is_needed(program: str) -> None:
    found = imported(program)
    assert "heterps" in found
    assert found.isdisjoint(HEAVY)


@pytest.mark.parametrize(("program", "more"), [(LAUNCH, ("rich",)), (TRAIN, ())], ids=["launch", "train"])
def test_training_a_small_model_imports_little(program: str, more: tuple[str, ...]) -> None:
    found = imported(program)
    assert "numba" in found
    assert found.isdisjoint(f"heterps.data.{name}" for name in OTHER_READERS)
    assert found.isdisjoint({*NOT_FOR_TRAINING, *more} - ({"cupy"} if gpu_available() else set()))


@pytest.mark.parametrize("limit", [40, 80])
def test_short_helps_are_those_of_the_commands(limit: int) -> None:
    context = click.Context(main)
    names = main.list_commands(context)
    commands = {name: main.get_command(context, name) for name in names}
    wanted = {name: command and command.get_short_help_str(limit) for name, command in commands.items()}
    assert {name: _described(name).get_short_help_str(limit) for name in names} == wanted
    assert len(names) > 15


def test_all_commands_are_listed() -> None:
    listed = CliRunner().invoke(main, ["--help"]).output
    assert "  train       Train a model on files." in listed


def test_a_module_without_a_command_is_named() -> None:
    with pytest.raises(ValueError, match=r"cli/other\.py has no function called command"):
        described("other", "def other(): ...")
