"""Strategies for the kinds of the model zoo: activations, sequences, sampling, images."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from heterps.graph import Form, TensorType, kind
from heterps.kernels import Lists
from heterps.testing.op_cases import CASES as FOUNDATION, SMALL, Draw, Floats, OpCase, make_case, numbers, unary


@st.composite
def _dice(draw: Draw) -> OpCase:
    x = numbers(draw, (draw(st.integers(2, 5)), *draw(st.sampled_from([(1,), (3,), (2, 2)]))))
    return make_case(draw, "dice", [x], momentum=0.75, eps=1e-3, train=draw(st.booleans()))


@st.composite
def _cosine(draw: Draw) -> OpCase:
    shape = (draw(SMALL), *draw(st.sampled_from([(1,), (3,), (2, 4)])))
    return make_case(draw, "cosine", [numbers(draw, shape), numbers(draw, shape)], eps=1e-3)


@st.composite
def _top_k(draw: Draw) -> OpCase:
    x = numbers(draw, (draw(SMALL), *draw(st.sampled_from([(1,), (4,), (2, 3)]))))
    return make_case(draw, "top_k", [x], k=draw(st.integers(1, x.shape[-1])))


@st.composite
def _top_k_indices(draw: Draw) -> OpCase:
    x = numbers(draw, (draw(SMALL), 3))
    return make_case(draw, "top_k_indices", [x], k=2, differentiable=())


def _history(draw: Draw, n: int, dim: int) -> Lists:
    lengths = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Lists(numbers(draw, (int(offsets[-1]), dim)), offsets)


def over_lists(draw: Draw, name: str, xs: list[Any], n: int, **attrs: Any) -> OpCase:
    """Return a case some of whose inputs are lists of vectors."""
    known = kind(name)
    types = tuple(
        TensorType((x.values.shape[1],), "float32", Form.RAGGED, 1.5)
        if isinstance(x, Lists)
        else TensorType(x.shape[1:])
        for x in xs
    )
    full = known.complete(attrs)
    params = {p.name: numbers(draw, p.shape) for p in known.params(full, types)}
    return OpCase(name, full, types, tuple(xs), params, n, known.result(full, types), tuple(range(len(xs))))


@st.composite
def _sequence_pool(draw: Draw) -> OpCase:
    n = draw(SMALL)
    pooling = draw(st.sampled_from(["mean", "sum", "last"]))
    return over_lists(draw, "sequence_pool", [_history(draw, n, draw(SMALL))], n, pooling=pooling)


@st.composite
def _attention(draw: Draw) -> OpCase:
    n, dim = draw(SMALL), draw(SMALL)
    hidden = draw(st.sampled_from([(), (3,), (2, 3)]))
    xs = [numbers(draw, (n, dim)), _history(draw, n, dim)]
    return over_lists(draw, "attention", xs, n, hidden=hidden, normalise=draw(st.booleans()))


def _ids(draw: Draw, shape: tuple[int, ...], high: int) -> Floats:
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(0, high, shape).astype(np.uint64)


def _sampled(name: str, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[OpCase]:
    @st.composite
    def case(draw: Draw) -> OpCase:
        n, count, size = draw(SMALL), draw(SMALL), 5
        chosen = draw(st.sampled_from(["uniform", "log_uniform", "weights"]))
        weights = (4.0, 3.0, 2.0, 1.0, 0.5) if chosen == "weights" else None
        xs = [numbers(draw, draw(st.sampled_from([(n,), (n, 1)]))), numbers(draw, (n, count))]
        xs += [_ids(draw, (n,), size), _ids(draw, (n, count), size)]
        attrs = {"vocabulary": size, "distribution": chosen, "weights": weights}
        attrs |= {key: draw(value) for key, value in more.items()}
        return make_case(draw, name, xs, differentiable=(0, 1), **attrs)

    return case()


@st.composite
def _in_batch_softmax(draw: Draw) -> OpCase:
    n, dim = draw(SMALL), draw(SMALL)
    xs = [numbers(draw, (n, dim)), numbers(draw, (n, dim))]
    xs += [_ids(draw, (n,), 3), numbers(draw, (n,))][: draw(st.integers(0, 2))]
    return make_case(draw, "in_batch_softmax", xs, differentiable=(0, 1), temperature=draw(st.sampled_from([1.0, 0.5])))


@st.composite
def _multi_logloss(draw: Draw) -> OpCase:
    shape = (draw(SMALL), draw(SMALL))
    return make_case(draw, "multi_logloss", [5 * numbers(draw, shape), (numbers(draw, shape) > 0).astype(float)])


def _image(draw: Draw, channels: int) -> Floats:
    return numbers(draw, (draw(st.integers(1, 3)), draw(st.integers(2, 5)), draw(st.integers(2, 5)), channels))


@st.composite
def _conv2d(draw: Draw) -> OpCase:
    groups = draw(st.sampled_from([1, 1, 2]))
    x = _image(draw, groups * draw(st.integers(1, 2)))
    kernel = draw(st.sampled_from([1, 2, 3, (1, 2), (3, 1)]))
    return make_case(
        draw,
        "conv2d",
        [x],
        channels=groups * draw(st.integers(1, 2)),
        kernel=kernel,
        stride=draw(st.sampled_from([1, 2, (1, 2)])),
        padding=draw(st.sampled_from([(1, 1), 2])) if kernel not in (1, 2, (1, 2)) else draw(st.sampled_from([0, 1])),
        groups=groups,
        bias=draw(st.booleans()),
    )


def _pool(name: str) -> st.SearchStrategy[OpCase]:
    @st.composite
    def case(draw: Draw) -> OpCase:
        kernel = draw(st.sampled_from([2, 1, (1, 2), 3]))
        padding = draw(st.sampled_from([0, 1] if kernel == 2 else [1] if kernel == 3 else [0]))
        return make_case(
            draw, name, [_image(draw, 2)], kernel=kernel, stride=draw(st.sampled_from([1, 2, (2, 1)])), padding=padding
        )

    return case()


@st.composite
def _batch_norm(draw: Draw) -> OpCase:
    x = numbers(draw, (draw(st.integers(2, 5)), *draw(st.sampled_from([(1,), (3,), (2, 2, 2)]))))
    return make_case(draw, "batch_norm", [x], momentum=0.75, eps=1e-3, train=draw(st.booleans()))


ZOO: dict[str, st.SearchStrategy[OpCase]] = {
    "attention": _attention(),
    "avg_pool": _pool("avg_pool"),
    "batch_norm": _batch_norm(),
    "conv2d": _conv2d(),
    "cosine": _cosine(),
    "dice": _dice(),
    "gelu": unary("gelu"),
    "in_batch_softmax": _in_batch_softmax(),
    "l2_normalize": unary("l2_normalize", 1, eps=1e-3),
    "max_pool": _pool("max_pool"),
    "multi_logloss": _multi_logloss(),
    "nce": _sampled("nce", correction=st.booleans()),
    "prelu": unary("prelu"),
    "sampled_softmax": _sampled("sampled_softmax"),
    "sequence_pool": _sequence_pool(),
    "top_k": _top_k(),
    "top_k_indices": _top_k_indices(),
}
CASES = {**FOUNDATION, **ZOO}
