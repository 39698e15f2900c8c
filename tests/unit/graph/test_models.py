import importlib

import pytest

import heterps as hps
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


def test_tables_over_other_ids_get_their_own_group() -> None:
    from heterps import ops

    a, b = ops.input("a", (2,), "uint64"), ops.input("b", (3,), "uint64")
    parts = [ops.sum(ops.lookup(i, table=t, dim=d)) for i, t, d in ((a, "t", 4), (a, "u", 1), (b, "t", 4))]
    y = ops.input("y")
    lowered = lower(hps.Graph(loss=ops.logloss(ops.add(*parts), y)))
    assert [(g.name, g.ids) for g in lowered.groups] == [("t", ("a", "b")), ("u", ("a",))]
