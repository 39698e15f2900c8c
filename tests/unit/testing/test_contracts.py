"""The contracts find bugs that are planted into what they test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import heterps as hps
from heterps.data import Dataset, arrays
from heterps.data.sources.arrays import Arrays
from heterps.device import register_namespace
from heterps.errors import UnknownKindError
from heterps.graph import OpKind, register_kind
from heterps.kernels import Kernel, OpCost, register_kernel
from heterps.planner.solve.placement import Placement
from heterps.planner.solve.problem import Problem
from heterps.planner.solve.solvers import Solver, exact
from heterps.tables import RULES, Accessor, Rule
from heterps.tables.specs.accessor import Counters
from heterps.testing import (
    AccessorContract,
    DeviceContract,
    EngineContract,
    OpContract,
    ReaderContract,
    RuleContract,
    SolverContract,
)
from heterps.testing.op_cases import unary


def test_a_wrong_gradient_a_loop_that_differs_and_a_cost_out_of_thin_air_are_found() -> None:
    def forward(c: Any) -> None:
        c.y[...] = c.xs[0] ** 2 + (1e-3 if c.loops else 0)

    def backward(c: Any) -> None:
        c.dxs[0][...] = 3 * c.xs[0] * c.dy

    register_kind(OpKind("tests.square", lambda attrs, inputs: inputs[0]))
    register_kernel("tests.square", Kernel(lambda work: OpCost(7, 8, 9), forward, backward))

    class Square(OpContract):
        cases = {"tests.square": unary("tests.square")}  # noqa: RUF012

    for test in (
        Square().test_gradient_is_the_central_difference,
        Square().test_twice_the_batch_is_twice_the_work_but_not_twice_the_parameters,
    ):
        with pytest.raises(AssertionError):
            test("tests.square")
    with pytest.raises(AssertionError):
        Square().test_loops_equal_array_functions("tests.square", "float64")


def test_a_kernel_that_touches_the_host_is_found() -> None:
    def forward(c: Any) -> None:
        c.y[...] = np.asarray(c.xs[0])

    register_kind(OpKind("tests.host", lambda attrs, inputs: inputs[0]))
    register_kernel("tests.host", Kernel(lambda work: OpCost(1, 1, 1), forward))

    class Host(OpContract):
        cases = {"tests.host": unary("tests.host")}  # noqa: RUF012

    with pytest.raises(TypeError):
        Host().test_array_functions_run_on_a_strict_device_without_touching_the_host("tests.host")


@njit(nogil=True)
def _wrong_loop(p: Any, k: Any, w: Any, w0: Any, s: Any, s0: Any, g: Any, g0: Any, n: Any, scale: Any) -> None:
    for i in range(n):
        w[w0 + i] -= np.float32(0.1) * g[g0]


@RULES.add
@dataclass(frozen=True)
class MyWrong(Rule):
    loop = _wrong_loop
    lr: float = 0.1

    def numbers(self, step: int) -> tuple[float, ...]:
        return (self.lr,)


def test_a_loop_that_is_not_the_formula_is_found() -> None:
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        RuleContract().test_sparse_rows_follow_the_formula(MyWrong(), lambda w, s, g, scale: w - 0.1 * g, "float32")


class BadAccessor(Accessor):
    """Each decision has a bug that a real one could have."""

    def decay(self, c: Counters) -> Counters:
        c.show[:] *= np.float32(0.5)  # in place
        return c

    def drop(self, c: Counters) -> Any:
        return c.show < c.show.mean()  # of whatever rows come together

    def in_base(self, c: Counters) -> Any:
        return (c.show > 3).astype(np.int8)  # no mask


def test_accessors_that_look_at_other_rows_or_change_them_are_found(tmp_path: Path) -> None:
    bad, contract = BadAccessor(embed=1), AccessorContract()
    with pytest.raises(AssertionError):
        contract.test_what_happens_to_a_row_does_not_depend_on_others(bad, "drop")
    with pytest.raises(AssertionError):
        contract.test_counters_are_left_as_they_are(bad, "decay")
    with pytest.raises(AssertionError):
        contract.test_a_decision_is_one_mask_over_rows(bad, "in_base")
    with pytest.raises(
        UnknownKindError, match=r"BadAccessor is not registered: decorate its class with @ACCESSORS\.add"
    ):
        contract.test_it_survives_json(bad)


class Forgetful(ReaderContract):
    """Rows in memory, with a bug of the test's choice."""

    bug = ""

    def dataset(self, folder: Path) -> Dataset:
        whole = arrays({"y": np.arange(300)}, split_cost=70)
        return whole if not self.bug else Buggy(**{**vars(whole), "bug": self.bug})

    def expected(self) -> list[tuple[Any, ...]]:
        return [(float(i),) for i in range(300)]


@dataclass(frozen=True, kw_only=True)
class Buggy(Arrays):
    bug: str = ""

    def pieces(self, grain: int) -> Any:
        found = super().pieces(grain)
        return found[:-1] if self.bug == "loses the end" else found

    def open(self, pieces: Any, bad: Any) -> Any:
        source = super().open(pieces, bad)
        if self.bug == "cannot skip":
            source.skip = lambda count, scratch: None
        return source


def test_lost_rows_and_reads_that_start_wrongly_are_found(tmp_path: Path) -> None:
    reader = Forgetful()
    reader.test_every_row_comes_once_and_in_order(tmp_path)
    reader.bug = "loses the end"
    with pytest.raises(AssertionError):
        reader.test_every_row_comes_once_and_in_order(tmp_path)
    reader.bug = "cannot skip"
    with pytest.raises(AssertionError):
        reader.test_a_read_from_any_batch_continues_the_whole_read(tmp_path, "none")


def test_a_device_that_loses_repeated_rows_is_found() -> None:
    class Add:
        at = staticmethod(lambda total, index, values: total.__setitem__(index, values))

    class Numpy:
        ndarray = type("Other", (), {})
        add = Add()

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

    register_namespace("tests.lossy", Numpy)

    class Lossy(DeviceContract):
        device = "tests.lossy"

    with pytest.raises(AssertionError):
        Lossy().test_rows_that_repeat_are_added_up()


def cheap(problem: Problem, x: float) -> Placement | None:
    """One unit everywhere, whatever the rows a second."""
    found = exact(problem, x)
    return found and replace(found, segments=tuple(replace(s, units=1) for s in found.segments))


def dear(problem: Problem, x: float) -> Placement | None:
    found = exact(problem, x)
    if found is None:
        return None
    more = replace(found, segments=tuple(replace(s, units=s.units + 1) for s in found.segments))
    return replace(more, price=problem.price_of(more.segments, more.hosts))


def test_solvers_that_promise_too_much_are_found() -> None:
    class Cheap(SolverContract):
        solver = Solver("tests.cheap", cheap, "")

    class Dear(SolverContract):
        solver = Solver("tests.dear", dear, "")
        proved = True

    with pytest.raises(AssertionError):
        Cheap().test_a_placement_is_whole_allowed_and_fast_enough()
    with pytest.raises(AssertionError):
        Dear().test_nothing_is_cheaper_than_the_cheapest()


def test_an_engine_that_forgets_the_seed_is_found() -> None:
    class Careless(EngineContract):
        def launch(self, plan: hps.Plan, **options: Any) -> hps.Session:
            return hps.launch(plan, engine="inline", **{**options, "seed": 0})

    with pytest.raises(AssertionError):
        Careless().test_same_seed_same_bits()
