import itertools
from xml.etree import ElementTree

import networkx as nx
import pytest
from hypothesis import given, settings, strategies as st

import heterps as hps
from graphs.ctrdnn import ctrdnn
from graphs.dcn_v2 import dcn_v2
from graphs.deepfm import deepfm
from graphs.dlrm import dlrm
from graphs.wide_deep import wide_deep
from heterps import Graph, ops
from heterps.kernels.cost import OpCost
from heterps.stages import Bound, Edge, Layer, Layers, layers_of, lower, partition
from heterps.stages.draw import draw

MODELS = [wide_deep, deepfm, dlrm, dcn_v2, ctrdnn]


@pytest.mark.parametrize("model", MODELS)
def test_every_op_is_in_one_layer_and_every_prefix_is_closed(model) -> None:
    graph = model()
    low, pieces = lower(graph).graph, layers_of(graph)
    assert sorted(op for layer in pieces.layers for op in layer.ops) == sorted(op.name for op in low)
    seen: set[str] = set()
    for layer in pieces.layers:
        inside = seen | set(layer.ops)
        for name in layer.ops:
            assert set(low[name].inputs) <= inside
        seen = inside


def test_wide_deep_is_cut_behind_the_pull_because_unique_rows_are_fewer_bytes() -> None:
    split = partition(wide_deep())
    assert [part.side for part in split.parts] == ["cpu", "gpu"]
    assert split.parts[0].layers == ("read", "pull deep+wide")
    assert {"deep", "fc0", "loss"} <= set(split.parts[1].ops)


def test_the_pooled_variant_where_pooled_rows_are_fewer_bytes() -> None:
    ids = ops.input("ids", (50,), "uint64")
    h = ops.dense(ops.lookup(ids, "t", 16, pooling="sum"), 512)
    graph = hps.Graph(loss=ops.logloss(ops.dense(ops.relu(h), 1), ops.input("y")))
    split = partition(graph, unique_fraction=0.9)
    assert "t" in split.parts[0].ops
    assert split.crossing_bytes == 4096 * (16 * 4 * 2 + 4)  # pooled rows both ways, the label forward


def test_dlrm_bottom_mlp_goes_with_the_compute() -> None:
    parts = partition(dlrm()).parts
    assert len(parts) == 2
    assert {"bottom0", "pairs"} <= set(parts[1].ops)


def test_ctrdnn_has_sixteen_layers() -> None:
    pieces = layers_of(ctrdnn())
    assert len(pieces.layers) == 17  # read, pull, gather, 13 hidden (the last with the output), loss


def test_pins_make_three_stages_and_five_blocks() -> None:
    x, y = ops.input("x", (64,)), ops.input("y")
    with ops.place("cpu"):
        a = ops.dense(x, 64, name="a")
    with ops.place("gpu"):
        b = ops.dense(ops.relu(a), 64, name="b")
    with ops.place("cpu"):
        c = ops.dense(ops.relu(b), 1, name="c")
        loss = ops.logloss(c, y)
    split = partition(hps.Graph(loss=loss))
    assert [part.side for part in split.parts] == ["cpu", "gpu", "cpu"]
    assert split.blocks == 5
    assert "b" in split.parts[1].ops
    assert "c" in split.parts[2].ops


def test_labels_give_reasons_with_figures() -> None:
    reasons = {layer.name: layer.reason for layer in layers_of(wide_deep()).layers}
    assert reasons["pull deep+wide"] == "reads and updates table rows of 68 B"
    assert "FLOP/B, above the ridge of 5" in reasons["fc0"]


def chain(draw_bounds: list[str], sizes: list[int]) -> Layers:
    layers = [
        Layer(
            f"l{i}", (f"o{i}",), Bound.COMPUTE if b == "gpu" else Bound.IO, "", "cpu" if b == "cpu" else None, OpCost()
        )
        for i, b in enumerate(draw_bounds)
    ]
    edges = [Edge(i, i + 1, f"t{i}", size, size) for i, size in enumerate(sizes)]
    return Layers(tuple(layers), tuple(edges), 1, 1.0)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["cpu", "gpu", "free"]), st.integers(1, 9)), min_size=2, max_size=7),
)
def test_the_cut_is_the_best_of_all(pieces: list[tuple[str, int]]) -> None:
    kinds = ["cpu"] + [kind for kind, _ in pieces]
    sizes = [size for _, size in pieces]
    pieces_of = chain(kinds, sizes)
    split = partition(pieces_of)
    free = [i for i, kind in enumerate(kinds) if kind == "free"]

    def cost(sides: list[str]) -> int:
        return sum(2 * size for i, size in enumerate(sizes) if sides[i] != sides[i + 1])

    best = min(
        cost([dict(zip(free, choice, strict=True)).get(i, kind) for i, kind in enumerate(kinds)])
        for choice in itertools.product(["cpu", "gpu"], repeat=len(free))
    )
    assert split.crossing_bytes == best
    assert nx.is_directed_acyclic_graph(nx.DiGraph([(e.source, e.target) for e in pieces_of.edges]))
    order = [name for part in split.parts for name in part.layers]
    assert sorted(order) == sorted(layer.name for layer in pieces_of.layers)


def test_a_drawing_is_xml_whatever_ops_are_called() -> None:
    names = ["<b>&", "a" * 39 + "&", "x\x1b[2J", "[bold]"]
    x = ops.input("x", (64,))
    for name in names:
        x = ops.dense(x, 64, name=name)
    svg = draw(partition(Graph(ops.logloss(ops.dense(x, 1), ops.input("y")))), title="<title>&\x00")
    texts = [element.text or "" for element in ElementTree.fromstring(svg).iter()]
    assert "<title>&\\x00" in texts
    assert all(name.replace("\x1b", "\\x1b") in texts for name in names)
