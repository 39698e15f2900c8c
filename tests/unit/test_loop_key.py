from __future__ import annotations

import os
import subprocess
import sys
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from heterps.compiled import inline, njit
from heterps.loop_key import loop_key

TEXT = """
TABLE, SIZE, WORDS, OTHER = np.arange(3.0), 3, ("a", 2), 7

@inline
def deepest(x):
    return x + 1

@inline
def inner(x):
    return deepest(x) * SIZE

@inline
def second(x):
    return inner(x) + deepest(x)

@njit(nogil=True)
def outer(x):
    return second(x) + inner(TABLE[0]) + len(WORDS)
"""


def key_of(*change: str, name: str = "outer") -> str:
    """Return the key of a loop in a small module, with a piece of its text replaced by another."""
    text = TEXT.replace(*change) if change else TEXT
    assert not change or text != TEXT
    names: dict[str, Any] = {"np": np, "njit": njit, "inline": inline, "__name__": "a_module"}
    exec(text, names)
    return loop_key(names[name])


def test_the_same_text_gives_the_same_key() -> None:
    assert key_of() == key_of()


EVERY = """
import sys
import heterps.data.warm, heterps.kernels.warm, heterps.planner.solve.pareto, heterps.tables.warm
from heterps.loop_key import loop_key
for name, module in sorted(sys.modules.items()):
    for what, value in sorted(vars(module).items()) if name.startswith("heterps") else ():
        if hasattr(value, "py_func"):
            print(name, what, loop_key(value))
"""


@pytest.mark.full
def test_keys_are_the_same_in_every_process() -> None:
    def keys(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run([sys.executable, "-c", EVERY], env=env, capture_output=True, text=True, check=True).stdout

    first, *others = (keys(seed) for seed in "012345")
    assert first.count("heterps.") > 100
    assert set(others) == {first}


def test_sets_have_no_order() -> None:
    upward, downward = ({f"option_{n}" for n in order} for order in (range(50), range(50, -1, -1)))
    assert loop_key(Options(upward | downward)) == loop_key(Options(downward | upward))


class Options:
    """As much of a loop as its key is made of."""

    def __init__(self, letters: set[str]) -> None:
        self.targetoptions, self.py_func = {"fastmath": letters}, key_of


@pytest.mark.parametrize(
    "change",
    [
        ("x + 1", "x + 2"),  # two calls away
        ("x + 1", "x - 1"),
        ("* SIZE", "* OTHER"),
        ("arange(3.0), 3", "arange(3.0), 4"),
        ("arange(3.0)", "arange(4.0)"),
        ('"a", 2', '"a", 2, 3'),
        ("nogil=True", "nogil=True, error_model='numpy'"),
        ("inner(x) + deepest(x)", "deepest(x) + inner(x)"),
    ],
    ids=lambda change: "_".join(change[1].split()),
)
def test_whatever_becomes_part_of_a_loop_changes_its_key(change: tuple[str, str]) -> None:
    assert key_of(*change) != key_of()


def test_what_a_loop_does_not_use_leaves_its_key() -> None:
    assert key_of("x + 1", "x + 2", name="second") != key_of(name="second")
    assert key_of('"a", 2', '"a", 3', name="second") == key_of(name="second")


def test_two_names_that_change_places_change_the_key() -> None:
    names: dict[str, Any] = {"np": np, "njit": njit, "inline": inline, "__name__": "a_module"}
    exec(TEXT, names)
    source: FunctionType = names["outer"].py_func

    def swapped(**other: Any) -> Any:
        return njit(nogil=True)(FunctionType(source.__code__, {**names, **other}, "outer"))

    assert loop_key(swapped(second=names["inner"], inner=names["second"])) != loop_key(swapped())
