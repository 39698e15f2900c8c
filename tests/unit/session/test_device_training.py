"""Models train on a device, here the strict stand-in, as they do on the CPU: fused, and with stages there."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps.device import found_devices
from heterps.device.fake import TRAFFIC, Traffic
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
        return found | {"devices": last.profile.to_json()["devices"]}


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("loss", "dense", "prediction"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)


DEVICES = ["fake", pytest.param("gpu:0", marks=pytest.mark.gpu)]


def label(device: str) -> str:
    return "fake, emulated (asked for)" if device == "fake" else found_devices().gpus[0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(zoo.SMALL))
def test_every_model_trains_on_a_device_as_on_the_cpu(name: str, device: str) -> None:
    graph = zoo.graph(name)
    fused = hps.Plan.fused(graph, batch_size=zoo.BATCH)
    expected = trained(fused, engine="inline")
    assert expected["devices"] == {"inline": ["CPU"]}
    together = trained(fused, device=device)
    assert together["devices"] == {"io": [label(device)]}
    same(together, expected)
    apart = trained(zoo.staged(graph), device=device)
    assert apart["devices"]["compute"] == [label(device)]
    same(apart, expected)


# --- what crosses between host and device


def crossed(plan: hps.Plan, batches: int, **options: Any) -> Traffic:
    """Copies and waits of so many whole batches, beyond those of the first."""
    found = []
    for n in (1, 1 + batches):
        TRAFFIC.reset()
        data = zoo.data(plan.graph, n * plan.batch_size)
        with hps.launch(plan, mode="sync", report_s=1e9, device="fake", **options) as session:
            list(session.train(data))
        found.append(replace(TRAFFIC))
    return Traffic(**{name: (value - vars(found[0])[name]) // batches for name, value in vars(found[1]).items()})


def test_a_batch_crosses_once_up_and_once_down_with_one_wait() -> None:
    """Wide & Deep, fused: columns, rows, indices and parameters go up as one; rows' gradients, dense, loss, prediction
    come down as one.
    """
    traffic = crossed(hps.Plan.fused(zoo.graph("wide_deep"), batch_size=zoo.BATCH), 4)
    assert (traffic.to_device, traffic.to_host, traffic.syncs) == (1, 1, 1)


def test_the_last_stage_crosses_once_too() -> None:
    traffic = crossed(zoo.staged(zoo.graph("wide_deep")), 4)
    assert (traffic.to_device, traffic.to_host, traffic.syncs) == (1, 1, 1)


def test_a_stage_in_the_middle_crosses_once_each_way_and_back() -> None:
    graph = zoo.graph("wide_deep")
    io, compute = (part.ops for part in hps.partition(graph).parts)
    traffic = crossed(zoo.staged(graph, [io, compute[:-2], compute[-2:]]), 4)
    assert (traffic.to_device, traffic.to_host, traffic.syncs) == (2, 2, 2)


def test_inference_crosses_once_and_parameters_once_for_a_split() -> None:
    plan = hps.Plan.fused(zoo.graph("wide_deep"), batch_size=zoo.BATCH)
    sizes = []
    with hps.launch(plan, mode="sync", engine="inline", device="fake") as session:
        for n in (1, 5):
            TRAFFIC.reset()
            session.predict(zoo.data(plan.graph, n * zoo.BATCH))
            assert (TRAFFIC.to_device, TRAFFIC.to_host, TRAFFIC.syncs) == (n, n, n)
            sizes.append(TRAFFIC.bytes_to_device)
        parameters = 4 * session.job.model.layout.size
    one, five = sizes
    assert five < 5 * one - 3 * parameters
