"""Contracts for what others add: op kinds, Rules, accessors, readers, devices, solvers, engines.

Each is a class to derive from in a test file of your own; it says what to give, pytest runs the rest. The built-in ones
are tested by the same classes. This package needs pytest and hypothesis (``pip install heterps[testing]``); nothing
else in heterps imports it.

>>> from heterps.testing import RuleContract
>>> [name for name in vars(RuleContract) if name.startswith("test_")][-1]
'test_a_rule_survives_json'
"""

import pytest

# Before the modules are imported: only then do their bare asserts say what the two sides were.
pytest.register_assert_rewrite(
    *(f"{__name__}.{part}_contract" for part in ("accessor", "device", "engine", "op", "reader", "rule", "solver"))
)

from heterps.testing.accessor_contract import AccessorContract  # noqa: E402
from heterps.testing.device_contract import DeviceContract  # noqa: E402
from heterps.testing.engine_contract import EngineContract  # noqa: E402
from heterps.testing.op_cases import OpCase, make_case, numbers  # noqa: E402
from heterps.testing.op_contract import OpContract  # noqa: E402
from heterps.testing.reader_contract import ReaderContract  # noqa: E402
from heterps.testing.rule_contract import RuleContract  # noqa: E402
from heterps.testing.solver_contract import SolverContract  # noqa: E402

__all__ = [
    "AccessorContract",
    "DeviceContract",
    "EngineContract",
    "OpCase",
    "OpContract",
    "ReaderContract",
    "RuleContract",
    "SolverContract",
    "make_case",
    "numbers",
]
