import importlib

import pytest

import heterps as hps
from heterps.stages import layers_of
from heterps.stages.lowering import lower

MODELS = ["wide_deep", "deepfm", "dlrm", "dcn_v2", "ctrdnn"]


@pytest.mark.parametrize("name", MODELS)
def test_models_build_lower_and_round_trip(name: str) -> None:
    graph = getattr(importlib.import_module(f"graphs.{name}"), name)()
    assert hps.Graph.from_json(graph.to_json()) == graph
    lowered = lower(graph)
    kinds = [op.kind for op in lowered.graph]
    assert "lookup" not in kinds
    assert kinds.count("pull") == 1  # tables over the same ids share one row group


@pytest.mark.parametrize("name", [*MODELS, "dnn"])
def test_models_for_tables_take_another_loss(name: str) -> None:
    graph = getattr(importlib.import_module(f"graphs.{name}"), name)(loss="mse", weighted=True, slots=2, dense=0)
    loss = graph[graph.loss]
    assert (loss.kind, loss.inputs[1:]) == ("mse", ("y", "weight"))


ZOO = ["dnn", "word2vec", "mnist_mlp", "resnet", "two_emb", "matchnet", "nce", "din", "mmoe"]


@pytest.mark.parametrize("name", ZOO)
def test_models_of_the_zoo_build_lower_and_round_trip(name: str) -> None:
    graph = getattr(importlib.import_module(f"graphs.{name}"), name)()
    assert hps.Graph.from_json(graph.to_json()) == graph
    assert "lookup" not in {op.kind for op in lower(graph).graph}
    layers = layers_of(graph, batch_size=64)
    assert sum(layer.cost.flops for layer in layers.layers) > 0


def test_resnets_have_the_depth_and_size_that_the_paper_says() -> None:
    from graphs.resnet import resnet
    from heterps.kernels import ParamLayout

    for layers, millions in ((18, 11.69), (50, 25.56)):
        graph = resnet(layers, shape=(224, 224, 3), classes=1000, stem="large")
        weighted = [op for op in graph if op.kind in ("conv2d", "dense") and "shortcut" not in op.name]
        assert len(weighted) == layers
        trained = sum(piece.size for piece in ParamLayout(graph) if piece.rule is None)
        assert trained / 1e6 == pytest.approx(millions, abs=0.01)


def test_tables_over_other_ids_get_their_own_group() -> None:
    from heterps import ops

    a, b = ops.input("a", (2,), "uint64"), ops.input("b", (3,), "uint64")
    parts = [ops.sum(ops.lookup(i, table=t, dim=d)) for i, t, d in ((a, "t", 4), (a, "u", 1), (b, "t", 4))]
    y = ops.input("y")
    lowered = lower(hps.Graph(loss=ops.logloss(ops.add(*parts), y)))
    assert [(g.name, g.ids) for g in lowered.groups] == [("t", ("a", "b")), ("u", ("a",))]
