import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import heterps as hps
from heterps import ops
from heterps.errors import GraphError, UnknownKindError
from heterps.graph import Form, OpKind, TensorType, kind, kinds, register_kind
from heterps.graph.builtin import broadcast


def tiny() -> hps.Graph:
    x, y = ops.input("x", (3,)), ops.input("y")
    return hps.Graph(loss=ops.logloss(ops.dense(ops.relu(ops.dense(x, 4)), 1), y))


def test_unnamed_ops_are_called_after_their_kind() -> None:
    assert [op.name for op in tiny()] == ["x", "dense", "relu", "dense_1", "y", "logloss"]


def test_a_given_name_is_never_taken_by_an_unnamed_op() -> None:
    x, y = ops.input("x", (3,)), ops.input("y")
    graph = hps.Graph(loss=ops.logloss(ops.dense(ops.dense(x, 4), 1, name="dense"), y))
    assert [op.name for op in graph if op.kind == "dense"] == ["dense_1", "dense"]


def test_json_round_trip_through_a_file(tmp_path: Path) -> None:
    ids = ops.input("ids", ragged=True, dtype="uint64", mean_length=7.5)
    with ops.place("gpu"):
        h = ops.dense(ops.lookup(ids, "t", 8, pooling="mean", padding_id=0), 1)
    graph = hps.Graph(loss=ops.mse(h, ops.input("y")), outputs={"score": h})
    graph.save(tmp_path / "g.json")
    loaded = hps.Graph.load(tmp_path / "g.json")
    assert loaded == graph
    assert loaded["dense"].place == "gpu"
    assert loaded.outputs == {"score": "dense"}


def test_networkx_view() -> None:
    view = tiny().nx
    assert list(view.predecessors("dense_1")) == ["relu"]
    assert view.nodes["relu"]["op"].kind == "relu"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ops.dense(ops.input("x"), 3, name="fc"), r"dense 'fc': input must have a last dimension"),
        (lambda: ops.dense(ops.input("x", (2,)), 0), "width is 0, expected a whole number of at least 1"),
        (lambda: ops.add(ops.input("a", (2,)), ops.input("b", (3,)), name="s"), r"add 's': cannot combine shapes"),
        (lambda: ops.lookup(ops.input("x", (2,)), "t", 4), "ids must be uint64"),
        (lambda: ops.lookup(ops.input("i", (2,), "uint64"), "t", 4, pooling="min"), "pooling must be one of"),
        (lambda: ops.reshape(ops.input("x", (6,)), (4, -1)), "cannot reshape"),
        (lambda: ops.split(ops.input("x", (6,)), (4, 3)), "add up to 6"),
        (lambda: ops.dropout(ops.input("x", (6,)), 1.0), "rate is 1.0, expected a number of at least 0 and below 1"),
        (lambda: ops.input("x", (0,)), "shape must be positive"),
        (lambda: ops.input("x", dtype="string"), "dtype must be one of"),
        (lambda: ops.logloss(ops.input("x", (2,)), ops.input("y")), "one number per sample"),
        (lambda: ops.softmax_cross_entropy(ops.input("x", (2,)), ops.input("y")), "class number"),
        (lambda: ops.matmul(ops.input("a", (2, 3)), ops.input("b", (2, 3))), "inner dimensions differ"),
        (lambda: ops.fm(ops.input("a", (2,))), "2 dimension"),
        (lambda: ops.relu(3), "must be a tensor made by heterps.ops, got int"),
        (lambda: hps.Graph(loss=ops.input("x")), "no loss"),
        (lambda: ops.sum(ops.input("x", (2,)), axis=2), "axis 2 is out of range"),
        (lambda: ops.build("relu", ops.input("x", (2,)), speed=1), "no attribute 'speed'"),
        (lambda: ops.build("dense", ops.input("x", (2,))), "needs the attribute 'width'"),
        (lambda: ops.cross(ops.input("x", (2,)), ops.input("z", (3,))), "one shape"),
    ],
)
def test_mistakes_are_named(make, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make()


def test_an_unknown_kind_suggests_the_nearest() -> None:
    with pytest.raises(UnknownKindError, match="did you mean 'relu'"):
        ops.build("rellu", ops.input("x", (2,)))


def test_one_table_with_two_dims_names_both_ops() -> None:
    ids = ops.input("ids", (2,), "uint64")
    a, b = (ops.sum(ops.lookup(ids, "t", d, name=f"l{d}")) for d in (4, 8))
    with pytest.raises(GraphError, match=r"table 't' has dim=4 in op 'l4' but dim=8 in op 'l8'"):
        hps.Graph(loss=ops.logloss(ops.add(a, b), ops.input("y")))


def test_two_ops_of_one_name() -> None:
    x = ops.dense(ops.dense(ops.input("x", (2,)), 3, name="fc"), 1, name="fc")
    with pytest.raises(GraphError, match="2 ops are called 'fc'"):
        hps.Graph(loss=ops.logloss(x, ops.input("y")))


def broken(change) -> dict:
    value = json.loads(json.dumps(tiny().to_json()))
    change(value)
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.update(schema=9), "schema is 9, expected 1"),
        (lambda v: v.pop("loss"), "lacks"),
        (lambda v: v["ops"][1].update(inputs=["relu"]), "cycle: .*relu"),
        (lambda v: v["ops"][1].update(inputs=["gone"]), "reads 'gone', which is not in the graph"),
        (lambda v: v["ops"][1].pop("kind"), "lacks"),
        (lambda v: v["ops"][1].update(name="x"), "2 ops are called 'x'"),
        (lambda v: v.update(loss="relu"), "not a loss"),
        (lambda v: v["ops"][1].update(place="tpu"), "pinned to 'tpu'"),
        (lambda v: v["ops"][1]["attrs"].update(width=-1), "dense 'dense': width"),
    ],
)
def test_broken_json_is_refused_by_name(change, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        hps.Graph.from_json(broken(change))


def test_place_is_undone_after_the_block() -> None:
    with pytest.raises(GraphError, match=r"ops\.place takes"), ops.place("tpu"):
        pass
    with ops.place("cpu"):
        pass
    assert ops.input("x").place is None


def test_a_kind_from_outside() -> None:
    double = OpKind("test_double", lambda attrs, types: types[0], doc="2 x")
    register_kind(double)
    register_kind(double)  # importing twice is harmless
    assert kind("test_double") in list(kinds())
    x = ops.build("test_double", ops.input("x", (1,)))
    assert hps.Graph(loss=ops.mse(x, ops.input("y"))).ops[1].kind == "test_double"
    again = OpKind("test_double", lambda attrs, types: types[0], doc="2 x, run again")
    register_kind(again)  # a notebook's cell
    assert kind("test_double") is again
    with pytest.raises(GraphError, match="registered already"):
        register_kind(OpKind("relu", lambda attrs, types: types[0]))


shapes = st.lists(st.sampled_from([1, 2, 3]), max_size=3).map(tuple)


@given(shapes, shapes)
def test_broadcasting_is_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    import numpy as np

    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(GraphError):
            broadcast(a, b)
    else:
        assert broadcast(a, b) == expected


def test_deep_graphs_need_no_recursion() -> None:
    x = ops.input("x", (1,))
    for _ in range(3000):
        x = ops.relu(x)
    assert len(hps.Graph(loss=ops.mse(x, ops.input("y")))) == 3003


def test_types_print_readably() -> None:
    assert str(TensorType((2, 3))) == "float32 [batch, 2, 3]"
    assert str(TensorType((), "uint64", Form.RAGGED, 4)) == "uint64 ragged[batch, ~4]"
