"""Kinds of the model zoo against independent formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.errors import GraphError
from heterps.graph import Graph, ops
from heterps.kernels import Lists, Program
from heterps.kernels.ops import convolution
from heterps.kernels.ops.sampling import draw_ids
from heterps.testing.op_cases import OpCase, make_case


def plain(seed: int = 0):
    """Stands in for Hypothesis where one example will do."""
    rng = np.random.default_rng(seed)
    return lambda strategy: int(rng.integers(2**32))


def one(kind: str, *xs: np.ndarray, train: bool = True, differentiable=None, **attrs) -> OpCase:
    return make_case(plain(), kind, list(xs), train=train, differentiable=differentiable, **attrs)


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape)


@pytest.mark.parametrize(("stride", "padding", "groups"), [(1, 0, 1), (2, 1, 1), ((1, 2), (2, 0), 2), (3, 2, 4)])
def test_conv2d_is_the_sum_over_windows(stride, padding, groups) -> None:
    x = image(2, 6, 5, 4)
    case = one("conv2d", x, channels=8, kernel=(3, 2), stride=stride, padding=padding, groups=groups)
    weight = case.params["weight"].reshape(3, 2, 4 // groups, 8)
    (sh, sw), (ph, pw) = (np.broadcast_to(v, 2) for v in (stride, padding))
    padded = np.pad(x, ((0, 0), (ph, ph), (pw, pw), (0, 0)))
    expected = np.empty((2, *case.result.shape))
    for b, r, s, k in np.ndindex(expected.shape):
        first = k // (8 // groups) * (4 // groups)
        window = padded[b, r * sh : r * sh + 3, s * sw : s * sw + 2, first : first + 4 // groups]
        expected[b, r, s, k] = np.sum(window * weight[..., k]) + case.params["bias"][k]
    np.testing.assert_allclose(case.run().y, expected, rtol=1e-12)


def test_conv2d_in_portions_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    case = one("conv2d", image(5, 4, 4, 2), channels=3, kernel=3, padding=1)
    dy = image(5, 4, 4, 3)
    whole = case.run(cotangent=dy)
    monkeypatch.setattr(convolution, "CPU_LAYOUT_BYTES", 1)
    single = case.run(cotangent=dy)
    np.testing.assert_allclose(single.y, whole.y, rtol=1e-12)
    np.testing.assert_allclose(single.dxs[0], whole.dxs[0], rtol=1e-12)
    np.testing.assert_allclose(single.dparams["weight"], whole.dparams["weight"], rtol=1e-12)


def test_pools_see_only_pixels() -> None:
    x = image(1, 3, 3, 1) - 5  # all negative: zeros of a padding would win
    corners = one("max_pool", x, kernel=3, stride=2, padding=1).run().y[0, :, :, 0]
    assert corners[0, 0] == x[0, :2, :2, 0].max()
    assert corners[1, 1] == x[0, 1:, 1:, 0].max()
    means = one("avg_pool", x, kernel=3, stride=2, padding=1).run().y[0, :, :, 0]
    assert means[0, 1] == pytest.approx(x[0, :2, 1:, 0].mean())


def test_max_pool_shows_nan() -> None:
    x = image(1, 2, 2, 1)
    x[0, 1, 0, 0] = np.nan
    assert np.isnan(one("max_pool", x, kernel=2, stride=2).run().y).all()


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("kind", ["batch_norm", "dice"])
def test_running_statistics_get_the_step_that_is_their_moving_average(kind: str, loops: bool) -> None:
    x = image(6, 3)
    case = one(kind, x, momentum=0.75)
    result = case.run(cotangent=image(6, 3), loops=loops)
    for name, now in (("mean", x.mean(0)), ("variance", x.var(0))):
        moved = case.params[name] - result.dparams[name]
        np.testing.assert_allclose(moved, 0.75 * case.params[name] + 0.25 * now)


@pytest.mark.parametrize("kind", ["batch_norm", "dice"])
def test_outside_training_the_running_statistics_count_and_stay(kind: str) -> None:
    case = one(kind, image(6, 3), train=False, eps=1e-3)
    shifted = case.with_x(0, case.x(0) + np.array([[0.0]] * 5 + [[100.0]]))
    np.testing.assert_array_equal(case.run().y[:5], shifted.run().y[:5])  # a neighbour changes nothing
    steps = case.run(cotangent=image(6, 3)).dparams
    assert not steps["mean"].any()
    assert not steps["variance"].any()


def test_batch_norm_normalises() -> None:
    case = one("batch_norm", 5 + 3 * image(50, 2, 2, 4))
    y = case.run().y
    scale, shift = case.params["scale"], case.params["shift"]
    np.testing.assert_allclose(y.mean((0, 1, 2)), shift, atol=1e-6)
    np.testing.assert_allclose(y.std((0, 1, 2)), np.abs(scale), rtol=1e-4)


def test_gelu_is_near_its_definition() -> None:
    x = np.linspace(-4, 4, 81)
    expected = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x]
    np.testing.assert_allclose(one("gelu", x).run().y, expected, atol=1e-3)


def test_cosine_and_length() -> None:
    a, b = image(4, 3), image(4, 3)[::-1].copy()
    expected = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(one("cosine", a, b).run().y, expected)
    np.testing.assert_allclose(np.linalg.norm(one("l2_normalize", a).run().y, axis=1), 1)
    assert one("l2_normalize", np.zeros((1, 3))).run().y.tolist() == [[0, 0, 0]]


def test_top_k_takes_the_first_of_equals() -> None:
    x = np.array([[1.0, 3.0, 3.0, 2.0]])
    assert one("top_k", x, k=3).run().y.tolist() == [[3, 3, 2]]
    assert one("top_k_indices", x, k=3, differentiable=()).run().y.tolist() == [[1, 2, 3]]


# drawn ids


@given(st.integers(0, 2**64 - 1), st.integers(1, 20), st.integers(1, 5), st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_drawn_ids_follow_from_the_seed_and_stay_in_range(seed: int, n: int, count: int, size: int) -> None:
    for attrs in (
        {"distribution": "uniform", "weights": None},
        {"distribution": "log_uniform", "weights": None},
        {"distribution": "weights", "weights": tuple(range(1, size + 1))},
    ):
        full = {"count": count, "vocabulary": size, **attrs}
        drawn = draw_ids(full, n, seed)
        assert drawn.shape == (n, count)
        assert drawn.max() < size
        np.testing.assert_array_equal(drawn, draw_ids(full, n, seed))


SHARES = {
    "uniform": np.full(4, 0.25),
    "log_uniform": np.log(np.array([2, 3 / 2, 4 / 3, 5 / 4])) / np.log(5),
    "weights": np.array([0.5, 0.25, 0.25, 0.0]),
}


@pytest.mark.parametrize("distribution", sorted(SHARES))
def test_ids_are_drawn_as_often_as_they_should(distribution: str) -> None:
    weights = (2.0, 1.0, 1.0, 0.0) if distribution == "weights" else None
    attrs = {"count": 5, "vocabulary": 4, "distribution": distribution, "weights": weights}
    shares = np.bincount(draw_ids(attrs, 8000, 1).ravel().astype(np.int64), minlength=4) / 40_000
    np.testing.assert_allclose(shares, SHARES[distribution], atol=0.01)


def test_nce_is_a_binary_question_per_id() -> None:
    ids = [np.array([2], np.uint64), np.array([[1, 2]], np.uint64)]  # the second sampled id is the true one
    xs = [np.array([0.3]), np.array([[0.7, -0.2]])]
    plain = one("nce", *xs, *ids, differentiable=(0, 1), vocabulary=4, correction=False).run().y
    assert plain == pytest.approx(math.log1p(math.exp(-0.3)) + math.log1p(math.exp(0.7)))
    shift = math.log(2 / 4)  # two drawn, each with probability one quarter
    corrected = one("nce", *xs, *ids, differentiable=(0, 1), vocabulary=4).run().y
    assert corrected == pytest.approx(math.log1p(math.exp(-0.3 + shift)) + math.log1p(math.exp(0.7 - shift)))


def test_sampled_softmax_over_all_ids_is_the_softmax() -> None:
    scores = image(1, 4)
    ids = [np.array([1], np.uint64), np.array([[0, 1, 2, 3]], np.uint64)]
    got = one("sampled_softmax", scores[:, 1], scores, *ids, differentiable=(0, 1), vocabulary=4).run().y
    assert got == pytest.approx(np.log(np.exp(scores).sum()) - scores[0, 1])


def test_in_batch_softmax_leaves_out_the_same_item() -> None:
    user, item = image(3, 2), image(3, 2)[::-1].copy()
    ids = np.array([7, 8, 7], np.uint64)
    scores = user @ item.T / 0.5
    scores[0, 2] = scores[2, 0] = -np.inf
    expected = np.mean(np.log(np.exp(scores).sum(1)) - np.diag(scores))
    case = one("in_batch_softmax", user, item, ids, differentiable=(0, 1), temperature=0.5)
    assert case.run().y == pytest.approx(expected)
    np.testing.assert_allclose(case.run().prediction, (user * item).sum(1) / 0.5)


# lists


def test_sequences() -> None:
    values, offsets = image(5, 2), np.array([0, 2, 2, 5])
    history = Lists(values, offsets)
    for pooling, expected in (("mean", values[2:].mean(0)), ("sum", values[2:].sum(0)), ("last", values[4])):
        case = lists_case("sequence_pool", [history], pooling=pooling)
        np.testing.assert_allclose(case.run().y[2], expected)
        assert not case.run().y[1].any()  # an empty list


def lists_case(kind: str, xs: list, **attrs) -> OpCase:
    from heterps.testing.zoo_cases import over_lists

    return over_lists(plain(), kind, xs, 3, **attrs)


def test_attention_by_dot_products_is_a_softmax_per_list() -> None:
    values, offsets, query = image(5, 2), np.array([0, 2, 2, 5]), image(3, 2) + 1
    case = lists_case("attention", [query, Lists(values, offsets)], hidden=(), normalise=True)
    e = np.exp(values[2:] @ query[2] / math.sqrt(2))
    np.testing.assert_allclose(case.run().y[2], (e / e.sum()) @ values[2:])


def test_a_model_with_lists_runs_in_a_program() -> None:
    lists, y = ops.input("lists", (), "uint64", ragged=True), ops.input("y")
    rows = ops.build("pull", lists, name="pull", group="g", width=2, tables=("g",))
    history = ops.build("gather_pool", rows, lists, columns=(0, 2), pooling="none")
    both = ops.concat(ops.attention(ops.sequence_last(history), history), ops.sequence_mean(history))
    program = Program(Graph(loss=ops.mse(ops.dense(both, 1, name="out"), y)), batch_size=3, dtype="float64")
    from heterps.kernels import Rows

    values = image(4, 2)
    index, offsets = np.array([0, 1, 3, 1, 2], np.int32), np.array([0, 2, 2, 5])
    params = 0.3 * np.random.default_rng(5).standard_normal(program.layout.size)

    def loss(v: np.ndarray) -> float:
        program.forward({"pull": Rows(v, (index,), (offsets,)), "y": np.ones(3)}, params)
        return program.loss

    loss(values)
    got = program.backward().inputs["pull"].copy()
    for where in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[where] = 1e-6
        assert got[where] == pytest.approx((loss(values + step) - loss(values - step)) / 2e-6, rel=1e-4, abs=1e-8)


X, IMAGE, ID = ops.input("x", (3,)), ops.input("image", (4, 4, 3)), ops.input("id", dtype="uint64")


@pytest.mark.parametrize(
    ("make_op", "message"),
    [
        (lambda: ops.conv2d(X, 4), "3 dimension"),
        (lambda: ops.conv2d(IMAGE, 4, groups=2), "groups must divide 3 and 4"),
        (lambda: ops.conv2d(IMAGE, 4, 5), "does not fit"),
        (lambda: ops.max_pool(IMAGE, 2, padding=2), "must be smaller than the window"),
        (lambda: ops.max_pool(IMAGE, 0), "at least 1"),
        (lambda: ops.batch_norm(X, momentum=1.0), "momentum"),
        (lambda: ops.cosine(X, ops.input("z", (2,))), "one shape"),
        (lambda: ops.top_k(X, 4), "k must be 1 to 3"),
        (lambda: ops.sequence_mean(X), "list of vectors per sample"),
        (lambda: ops.negative_sampling(ID, 2, 3, weights=[1.0]), "weights must be 3 numbers"),
        (lambda: ops.negative_sampling(ID, 2, 3, distribution="zipf"), "distribution must be one of"),
        (lambda: ops.nce(ops.sum(X), X, ID, X), "must come from ops.negative_sampling"),
        (lambda: ops.in_batch_softmax(X, X, None, ops.input("q")), "needs item_id"),
        (lambda: ops.multi_logloss(X, ops.input("y", (2,))), "one shape"),
    ],
)
def test_mistakes_are_named(make_op, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        make_op()
