"""Models train on a foreign device library through the same array code, stages and copies as on a GPU."""

import importlib

import numpy as np
import pytest

import heterps as hps
from heterps.device import namespace
from tests import zoo
from tests.unit.session.test_device_training import same, trained

pytest.importorskip("dpnp", reason="dpnp is not installed: make dpnp")
MODELS = ["wide_deep", "ctrdnn", "deepfm", "dcn_v2", "mnist_mlp"]


@pytest.fixture(scope="module", autouse=True)
def device() -> None:
    importlib.import_module("tests.dpnp.adapter")  # registers it


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_as_on_the_cpu(name: str) -> None:
    graph = zoo.graph(name)
    fused = hps.Plan.fused(graph, batch_size=zoo.BATCH)
    expected = trained(fused, engine="inline")
    together = trained(fused, engine="inline", device="dpnp")
    assert together["devices"] == {"inline": ["dpnp, emulated (asked for)"]}
    same(together, expected)
    apart = trained(zoo.staged(graph), device="dpnp", dense_on="stage")
    assert apart["devices"]["compute"] == ["dpnp, emulated (asked for)"]
    same(apart, expected)


@pytest.mark.parametrize("name", ["wide_deep", "deepfm"])
def test_tables_are_trained_there_as_on_the_cpu(name: str) -> None:
    graph = zoo.graph(name)
    expected = trained(hps.Plan.fused(graph, batch_size=zoo.BATCH), engine="inline")
    same(trained(zoo.staged(graph), device="dpnp", storage={"*": "gpu"}), expected)


def test_it_refuses_to_become_a_host_array_by_itself() -> None:
    with pytest.raises(TypeError):
        np.asarray(namespace("dpnp").zeros(3))
