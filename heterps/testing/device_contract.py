"""What every device (an array library under a name) must do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.device import array_namespace, is_host, namespace, synchronize, to_device, to_host
from heterps.graph import Graph, ops
from heterps.kernels import Program
from heterps.testing.op_cases import OpCase
from heterps.testing.op_contract import assert_same_result, cotangent_of
from heterps.testing.zoo_cases import CASES

__all__ = ["DeviceContract"]

EXAMPLES = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors]
)
DTYPES = ("bool", "int32", "int64", "uint64", "float16", "float32", "float64")


class DeviceContract:
    """Derive, and name the device.

    Attributes
    ----------
    device
        The name it is registered under (:func:`heterps.device.register_namespace`).
    cases
        The op kinds that must run on it: by default all built-in ones.
    """

    device: ClassVar[str]
    cases: ClassVar[Mapping[str, st.SearchStrategy[OpCase]]] = CASES

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each kind."""
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", sorted(self.cases))

    @property
    def xp(self) -> Any:
        """The array library."""
        return namespace(self.device)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_arrays_travel_there_and_back_unchanged(self, dtype: str) -> None:
        for shape in ((), (0,), (3,), (2, 3), (2, 1, 4)):
            host = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
            back = to_host(to_device(host, self.xp))
            assert type(back) is np.ndarray
            assert (back.dtype, back.shape) == (host.dtype, host.shape)
            np.testing.assert_array_equal(back, host)

    def test_its_arrays_are_known_and_not_copied_again(self) -> None:
        x = to_device(np.ones(3, np.float32), self.xp)
        assert array_namespace(x) is self.xp
        assert to_device(x, self.xp) is x
        assert to_device(x, self.xp, "float64").dtype == np.float64
        assert is_host(x) == (self.xp is np)
        synchronize(self.xp)

    def test_results_can_be_written_where_they_are_wanted(self) -> None:
        a, b = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2)
        out = self.xp.empty((2, 2))
        self.xp.matmul(self._there(a), self._there(b), out=out)
        np.testing.assert_allclose(to_host(out), a @ b)
        out[...] = 7.0
        assert (to_host(out) == 7).all()

    def test_rows_that_repeat_are_added_up(self) -> None:
        total = self.xp.zeros((3, 2))
        self.xp.add.at(total, self._there(np.array([1, 1, 2])), self._there(np.ones((3, 2))))
        np.testing.assert_array_equal(to_host(total), [[0, 0], [2, 2], [1, 1]])

    @given(data=st.data())
    @EXAMPLES
    def test_every_kind_gives_what_it_gives_on_the_host(self, name: str, data: st.DataObject) -> None:
        case = data.draw(self.cases[name])
        dy = cotangent_of(case)
        there, here = case.run(cotangent=dy, xp=self.xp), case.run(cotangent=dy, loops=False)
        assert_same_result(there, here, rtol=1e-9, atol=1e-10)

    def test_a_whole_model_trains_there_as_on_the_host(self) -> None:
        x, y = ops.input("x", shape=(4,)), ops.input("y")
        graph = Graph(loss=ops.logloss(ops.dense(ops.relu(ops.dense(x, 5, name="fc")), 1, name="out"), y))
        rng = np.random.default_rng(2)
        feeds = {"x": rng.standard_normal((6, 4)), "y": (rng.random(6) < 0.5).astype(np.float64)}
        found = []
        for xp in (np, self.xp):
            program = Program(graph, batch_size=6, dtype="float64", xp=xp)
            program.forward(feeds, to_device(np.linspace(-1, 1, program.layout.size), xp))
            found.append((program.loss, to_host(program.backward().dense).copy()))
        assert found[1][0] == pytest.approx(found[0][0], rel=1e-9)
        np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-7, atol=1e-10)

    def _there(self, x: npt.NDArray[Any]) -> Any:
        return to_device(x, self.xp)
