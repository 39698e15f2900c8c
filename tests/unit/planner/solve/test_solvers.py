"""Every built-in solver keeps the contract for solvers."""

from heterps.planner.solve.solvers import solver, solvers
from heterps.testing import SolverContract


class TestExact(SolverContract):
    solver = solver("exact")
    proved = True


class TestMilp(SolverContract):
    solver = solver("milp")
    proved = True


class TestBrute(SolverContract):
    solver = solver("brute")
    proved = True


class TestGreedy(SolverContract):
    solver = solver("greedy")


class TestCpuOnly(SolverContract):
    solver = solver("cpu-only")


class TestGpuOnly(SolverContract):
    solver = solver("gpu-only")


def test_every_solver_is_tested_above() -> None:
    tested = {cls.solver.name for cls in SolverContract.__subclasses__() if cls.__module__ == __name__}
    assert {each.name for each in solvers() if not each.name.startswith("tests.")} == tested
