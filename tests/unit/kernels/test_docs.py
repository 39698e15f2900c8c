"""docs/ops.md lists every kind, and the proofs it names exist."""

from __future__ import annotations

import re
from pathlib import Path

from heterps.graph import kinds
from heterps.testing import OpContract
from heterps.testing.zoo_cases import CASES
from tests.unit.kernels import test_cost, test_gradients, test_zoo
from tests.unit.kernels.program import test_program

TEXT = (Path(__file__).parents[3] / "docs" / "ops.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", TEXT, re.MULTILINE))


def test_every_kind_has_a_row() -> None:
    assert set(ROWS) == {k.name for k in kinds() if k.infer.__module__.startswith("heterps.")}


def test_every_computed_kind_names_its_proof() -> None:
    assert {kind for kind, proof in ROWS.items() if proof == f"`[{kind}]`"} == set(CASES)


def test_the_named_tests_exist() -> None:
    holders = (OpContract, test_cost, test_gradients, test_program, test_zoo)
    known = {name for holder in holders for name in vars(holder)}
    named = set(re.findall(r"\btest_\w+(?!\w*\.py)\b", TEXT)) - {"test_gradients", "test_cost", "test_random_graphs"}
    assert named
    assert named <= known
