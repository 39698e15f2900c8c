"""Whole models on the strict device: same numbers, and the host is left alone between feeding and reading."""

from __future__ import annotations

import numpy as np
import pytest

from heterps.device import namespace, to_device, to_host
from heterps.device.fake import TRAFFIC
from heterps.kernels import Program, Rows
from tests.unit.kernels.program.test_program import SMALL, batch, model, params


@pytest.mark.parametrize("name", SMALL)
def test_models_run_on_a_device_and_wait_only_when_the_loss_is_read(name: str) -> None:
    graph, xp = model(name), namespace("fake")
    here, there = Program(graph, batch_size=6, dtype="float64"), Program(graph, batch_size=6, dtype="float64", xp=xp)
    feeds, flat = batch(graph, 5), params(here)
    here.forward(feeds, flat)
    expected = here.backward()
    there.forward(feeds, flat)
    there.backward()
    on_device = to_device(flat, xp)
    TRAFFIC.reset()
    there.forward(feeds, on_device)
    got = there.backward()
    arrays = sum(1 + len(v.inverse) if isinstance(v, Rows) else 1 for v in feeds.values())
    assert TRAFFIC.to_device == arrays
    assert (TRAFFIC.to_host, TRAFFIC.syncs) == (0, 0)
    assert there.loss == pytest.approx(here.loss, rel=1e-12)
    np.testing.assert_allclose(to_host(got.dense), expected.dense, rtol=1e-9, atol=1e-12)
    for key in expected.inputs:
        np.testing.assert_allclose(to_host(got.inputs[key]), expected.inputs[key], rtol=1e-9, atol=1e-12)
