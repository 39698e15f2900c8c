"""Models train on a device, here the strict stand-in, as they do on the CPU: fused, and with stages there."""

from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps.tables import Shard
from tests import zoo


def _dense(shard: Shard, host: int) -> np.ndarray:
    return shard.pull_dense()


def trained(plan: hps.Plan, **options: Any) -> dict[str, Any]:
    """Rules without a division by past gradients: those turn rounding of a tiny gradient into a whole step."""
    model = plan.graph
    normalised = any(op.kind == "batch_norm" for op in model)  # over four rows: each step multiplies what was rounded
    rules = {"sparse": hps.SGD(lr=0.1), "dense": hps.SGD(lr=0.001 if normalised else 0.05)}
    with hps.launch(plan, mode="sync", metrics=(), report_s=1e9, **rules, **options) as session:
        last = session.fit(zoo.data(model))
        found = {"loss": last.loss, "dense": np.concatenate(session.engine.each_shard(_dense))}
        found["prediction"] = session.predict(zoo.data(model))
        return found | {"devices": last.profile.devices}


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("loss", "dense", "prediction"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", sorted(zoo.SMALL))
def test_every_model_trains_on_a_device_as_on_the_cpu(name: str) -> None:
    graph = zoo.graph(name)
    fused = hps.Plan.fused(graph, batch_size=zoo.BATCH)
    expected = trained(fused, engine="inline")
    assert expected["devices"] == {"inline": ("CPU",)}
    together = trained(fused, device="fake")
    assert together["devices"] == {"io": ("fake, emulated (asked for)",)}
    same(together, expected)
    apart = trained(zoo.staged(graph), device="fake")
    assert apart["devices"]["compute"] == ("fake, emulated (asked for)",)
    same(apart, expected)
