"""Examples in help texts: options that exist, and models that every installation has."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

import heterps.models
from heterps.cli import main

_OF_A_MODEL = ("graph", "plan", "profile", "stream", "train")


def _examples() -> Iterator[tuple[str, str]]:
    context = click.Context(main)
    for name in ("", *main.list_commands(context)):
        command = main.get_command(context, name) if name else main
        assert command is not None
        text = "\n".join([command.help or "", command.epilog or ""]).replace("\\\n", " ")
        for line in re.findall(r"^ *heterps (.*)$", text, re.MULTILINE):
            yield name or "heterps", re.split(r"\s{3,}(?!-)", line)[0]


@pytest.mark.parametrize(("name", "line"), list(_examples()))
def test_an_example_can_be_parsed(name: str, line: str) -> None:
    words = shlex.split(re.split(r" [|>&]", line)[0])
    words = words[2:] if words[0] == "--parts" else words
    command, context = main.get_command(click.Context(main), words[0]), click.Context(main)
    while isinstance(command, click.Group):
        words = words if words[1] in command.commands else ["", "make", *words[1:]]  # as `heterps plan FILE` is
        command, words = command.get_command(context, words[1]), words[1:]
    assert command is not None
    assert not command.make_context(words[0], words[1:], resilient_parsing=True).args


@pytest.mark.parametrize(("name", "line"), list(_examples()))
def test_an_example_names_a_model_that_is_there(name: str, line: str) -> None:
    words = [word for word in shlex.split(line) if word not in ("--parts", "my_rules.py")]
    if words[0] in _OF_A_MODEL and words[1] not in ("diff", "make"):
        assert words[1] in heterps.models.__all__ or words[1].startswith(
            ("my_model.py", "plan.json", "instance.json")
        ), words[1]
