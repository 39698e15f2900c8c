"""The strict device array must catch planted mistakes, and let correct code through."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from heterps.device import array_namespace, namespace, to_device, to_host
from heterps.device.fake import TRAFFIC, FakeArray

xp = namespace("fake")


def device(values: Any) -> Any:
    return to_device(np.asarray(values), xp)


def _assign_duplicates() -> None:
    device(np.zeros(4))[device([1, 1])] = 5.0


def _assign_duplicate_pairs() -> None:
    device(np.zeros((4, 4)))[device([1, 1]), device([2, 2])] = 5.0


def _into_host() -> None:
    host = np.zeros(3)
    host[...] = device([1.0, 2.0, 3.0])


def _out_host() -> None:
    xp.add(device([1.0]), device([1.0]), out=np.zeros(1))


MISTAKES: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "implicit conversion": (TypeError, lambda: np.asarray(device([1.0]))),
    "numpy list of it": (TypeError, lambda: np.array([device(1.0), device(2.0)])),
    "assignment into a host array": (TypeError, _into_host),
    "host array in an operator": (TypeError, lambda: device([1.0]) + np.ones(1)),
    "host array left of an operator": (TypeError, lambda: np.ones(1) + device([1.0])),
    "host array in a function": (TypeError, lambda: xp.concatenate([device([1.0]), np.ones(1)])),
    "host array as out": (TypeError, _out_host),
    "host index": (TypeError, lambda: device([1.0, 2.0])[np.array([0])]),
    "list index": (TypeError, lambda: device([1.0, 2.0])[[0]]),
    "index too large": (IndexError, lambda: device([1.0, 2.0])[device([2])]),
    "index too small": (IndexError, lambda: device([1.0, 2.0])[device([-3])]),
    "index too large on the second axis": (IndexError, lambda: device(np.ones((2, 2)))[:, device([2])]),
    "index too large after an ellipsis": (IndexError, lambda: device(np.ones((3, 3, 2)))[..., device([2])]),
    "scatter-add out of range": (IndexError, lambda: xp.add.at(device([1.0, 2.0]), device([7]), 1.0)),
    "duplicate indices in an assignment": (ValueError, _assign_duplicates),
    "duplicate index pairs in an assignment": (ValueError, _assign_duplicate_pairs),
    "loop over elements": (TypeError, lambda: list(device([1.0]))),
    "pickle": (TypeError, lambda: pickle.dumps(device([1.0]))),
    "deep copy": (TypeError, lambda: copy.deepcopy(device([1.0]))),
    "a function cupy lacks": (AttributeError, lambda: xp.busday_count),
    "a function cupy lacks, through numpy": (TypeError, lambda: np.insert(device([0.0, 1.0]), 0, 1.0)),
    "a method cupy lacks": (AttributeError, lambda: device([1.0]).setflags),
    "a keyword cupy lacks": (TypeError, lambda: xp.sum(device([1.0]), where=device([True]))),
    "scatter with a function cupy lacks it for": (TypeError, lambda: xp.hypot.at(device([1.0]), device([0]), 1.0)),
    "scatter into a dtype cupy has no atomics for": (TypeError, lambda: xp.add.at(device([1]), device([0]), 1)),
    "a hash": (TypeError, lambda: {device([1.0]): 1}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_refused(mistake: str) -> None:
    error, run = MISTAKES[mistake]
    with pytest.raises(error):
        run()


def test_correct_code_gives_numpys_results() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 4)), rng.standard_normal((4, 2))
    da, db = device(a), device(b)
    out = xp.empty((3, 2))
    xp.matmul(da, db, out=out)
    np.testing.assert_array_equal(to_host(out), a @ b)
    np.testing.assert_array_equal(to_host(xp.where(da > 0, da, 0)), np.where(a > 0, a, 0))
    np.testing.assert_array_equal(to_host(da.T[1:3].reshape(-1)), a.T[1:3].reshape(-1))
    da *= 2
    da[:, device([0, 2])] = 0.0
    a[:, [0, 2]] = 0.0
    np.testing.assert_array_equal(to_host(da), a * 2)
    target = device(np.zeros(3))
    xp.add.at(target, device([1, 1, 2]), device([1.0, 2.0, 4.0]))
    np.testing.assert_array_equal(to_host(target), [0, 3, 4])


def test_reductions_stay_on_the_device() -> None:
    TRAFFIC.reset()
    total = device([1.0, 2.0]).sum()
    assert isinstance(total, FakeArray)
    assert total.shape == ()
    assert TRAFFIC.syncs == 0
    assert float(total) == 3.0
    assert TRAFFIC.syncs == 1


def test_copies_and_waits_are_counted() -> None:
    TRAFFIC.reset()
    x = device(np.ones(4, np.float32))
    assert (TRAFFIC.to_device, TRAFFIC.bytes_to_device) == (1, 16)
    assert to_device(x, xp) is x
    to_host(x)
    assert (TRAFFIC.to_host, TRAFFIC.bytes_to_host, TRAFFIC.syncs) == (1, 16, 1)
    if x.sum() > 1:  # a hidden wait
        assert TRAFFIC.syncs == 2
    x.set(np.zeros(4, np.float32))
    assert TRAFFIC.to_device == 2


def test_its_namespace_is_found() -> None:
    assert array_namespace(device([1.0])) is xp
