"""No command that we print or document starts a Dask process that is open to strangers."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from heterps.cli import main
from heterps.runtime.cluster.commands import join_hint, scheduler_hint

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("heterps", "examples", "graphs") for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# A command goes on with an address, an option or something to be filled in; prose with a small word.
COMMAND = re.compile(r"\bdask[ -](?:worker|scheduler)[ \t]+(?=--|[a-z]+://|[A-Z]{2}|[${\"'])|--resources[ =]+[A-Z{]")
WANTED = ("--host", "--dashboard-address")


def lacking(text: str) -> list[str]:
    """Return the commands of a text that do not say where they listen; a line ending in a backslash goes on."""
    lines = re.sub(r"\\\n", " ", text).split("\n")
    return [line.strip() for line in lines if COMMAND.search(line) and not all(word in line for word in WANTED)]


def strings(source: str) -> Iterator[str]:
    """Yield the string constants of a program, docstrings and f-strings too."""
    for found in ast.walk(ast.parse(source)):
        if isinstance(found, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in found.values)
        elif isinstance(found, ast.Constant) and isinstance(found.value, str):
            yield found.value


@pytest.mark.parametrize(
    "text",
    [
        "dask scheduler --host 127.0.0.1",
        "$ dask worker tcp://127.0.0.1:8786 --resources HPS_IO=1",
        "start: dask worker SCHEDULER --host ADDRESS",
        "dask worker tls://10.0.0.5:8786 \\\n  --host 10.0.0.8",
        "start workers with --resources HPS_IO=1",
    ],
)
def test_the_check_finds_what_it_is_for(text: str) -> None:
    assert lacking(text)


def test_the_check_leaves_prose_alone() -> None:
    assert lacking("`dask scheduler` and `dask worker` processes") == []
    assert lacking("dask worker X \\\n --host A --dashboard-address B") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_documented_commands_say_where_they_listen(page: pathlib.Path) -> None:
    assert lacking(page.read_text()) == []


def test_commands_in_messages_say_where_they_listen() -> None:
    found = {str(path): lacking(text) for path in SOURCES for text in strings(path.read_text()) if lacking(text)}
    # The pieces that join_hint and the like put together are looked at as they come out, below.
    assert {path for path in found if not path.endswith("runtime/cluster/commands.py")} == set()


def test_printed_commands_say_where_they_listen(tmp_path: pathlib.Path) -> None:
    words = ["launch", "--tls", "--certs", str(tmp_path), "--io", "2", "--gpus", "1", "--hosts", "10.0.0.5,fd00::6"]
    printed = CliRunner().invoke(main, words).output
    assert printed.count("dask worker") == 4
    assert "--host '[fd00::6]'" in printed
    helped = CliRunner().invoke(main, ["launch", "--help"]).output
    for text in (printed, helped, join_hint("HPS_IO"), scheduler_hint()):
        assert lacking(text) == []
    assert COMMAND.search(printed)
    assert COMMAND.search(join_hint("HPS_IO"))
    assert COMMAND.search(scheduler_hint())
