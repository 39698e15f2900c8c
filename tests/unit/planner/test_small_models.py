"""Models so small that messages take longer than computing are planned like others."""

import pytest

import heterps as hps
from tests import zoo


@pytest.mark.parametrize("name", sorted(zoo.SMALL))
def test_a_tiny_model_is_planned_for_this_machine(name: str) -> None:
    for batch_size in (8, 1024):
        plan = hps.plan(zoo.graph(name), hps.Hardware.local(), batch_size=batch_size)
        assert plan.forecast is not None
        assert plan.forecast.rows_per_second > 0
