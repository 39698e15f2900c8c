"""Every built-in kind keeps the contract for op kinds."""

from __future__ import annotations

from heterps.graph import kinds
from heterps.kernels import kernel
from heterps.testing import OpContract
from heterps.testing.zoo_cases import CASES


class TestBuiltInKinds(OpContract):
    cases = CASES
    superlinear = frozenset({"in_batch_softmax"})


def test_every_kind_has_a_kernel_and_every_computed_kind_a_case() -> None:
    built_in = {k.name for k in kinds() if k.infer.__module__.startswith("heterps.")}
    computed = {name for name in built_in if kernel(name).forward is not None}
    assert computed == set(CASES)
    assert built_in - computed == {"input", "lookup", "pull", "negative_sampling"}
