"""One strategy per op kind: random attributes and inputs, run without a Program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from heterps.device.arrays import Namespace, to_device, to_host
from heterps.graph import Form, TensorType, kind
from heterps.kernels import Call, Lists, Rows, kernel

__all__ = ["CASES", "SMALL", "Draw", "Floats", "OpCase", "OpResult", "make_case", "numbers", "unary"]

Floats = npt.NDArray[Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class OpCase:
    """One op with data. Arrays are float64 unless they are labels or indices."""

    kind: str
    attrs: Mapping[str, Any]
    types: tuple[TensorType, ...]
    xs: tuple[Any, ...]
    params: Mapping[str, Floats]
    n: int
    result: TensorType
    differentiable: tuple[int, ...]
    train: bool = True
    seed: int = field(default=7)

    def run(self, *, xp: Namespace = np, loops: bool = True, dtype: str = "float64", cotangent: Any = None) -> OpResult:
        """Forward, and backward where a cotangent is given (losses always)."""
        call = Call(self.attrs, xp, self.n, loops=loops)
        call.xs = [_moved(x, xp, dtype) for x in self.xs]
        call.params = {k: to_device(v, xp, dtype) for k, v in self.params.items()}
        call.train, call.seed = self.train, self.seed
        call.y = _empty(self.result, self.n, xp, dtype)
        chosen = kernel(self.kind)
        assert chosen.forward is not None, f"kind {self.kind!r} is fed, not computed: it has no cases"
        chosen.forward(call)
        y = to_host(_values(call.y)).copy()
        prediction = chosen.prediction and to_host(chosen.prediction(call)).copy()
        if cotangent is None and self.result.form is not Form.SCALAR:
            return OpResult(y, {}, {}, prediction)
        call.dy = _dy(call, cotangent, xp, dtype)
        call.dxs = [self._gradient_room(i, call, xp, dtype) for i in range(len(self.xs))]
        call.dparams = {k: xp.full(v.shape, np.nan, dtype) for k, v in self.params.items()}
        chosen.backward(call)
        dxs = {i: to_host(_values(call.dxs[i])).copy() for i in self.differentiable}
        return OpResult(y, dxs, {k: to_host(v).copy() for k, v in call.dparams.items()}, prediction)

    def _gradient_room(self, i: int, call: Call, xp: Namespace, dtype: str) -> Any:
        if i not in self.differentiable:
            return None
        if isinstance(call.xs[i], Rows):
            return xp.zeros(call.xs[i].values.shape, dtype)
        if isinstance(call.xs[i], Lists):
            return Lists(xp.zeros(call.xs[i].values.shape, dtype), call.xs[i].offsets)
        return xp.full(call.xs[i].shape, np.nan, dtype)  # NaN left behind means something was not written

    def with_x(self, i: int, value: Floats) -> OpCase:
        """Return this case with other values of input ``i``."""
        x = self.xs[i]
        new: Any = Lists(value, x.offsets) if isinstance(x, Lists) else value
        new = Rows(value, x.inverse, x.offsets, x.ids) if isinstance(x, Rows) else new
        return _replace(self, xs=(*self.xs[:i], new, *self.xs[i + 1 :]))

    def with_param(self, name: str, value: Floats) -> OpCase:
        """Return this case with other values of a parameter."""
        return _replace(self, params={**self.params, name: value})

    def x(self, i: int) -> Floats:
        """Return the values of input ``i``."""
        return np.asarray(_values(self.xs[i]))

    def is_statistic(self, param: str) -> bool:
        """Whether a parameter is a running statistic, whose gradient is a step and not a slope."""
        return next(p.rule for p in kind(self.kind).params(self.attrs, self.types) if p.name == param) is not None


@dataclass
class OpResult:
    """What a case gave: result, gradients of inputs and parameters, and the prediction of a loss."""

    y: Floats
    dxs: dict[int, Floats]
    dparams: dict[str, Floats]
    prediction: Any


def _values(x: Any) -> Any:
    return x.values if isinstance(x, (Rows, Lists)) else x


def _replace(case: OpCase, **changes: Any) -> OpCase:
    return OpCase(**{**{f: getattr(case, f) for f in case.__dataclass_fields__}, **changes})


def _moved(x: Any, xp: Namespace, dtype: str) -> Any:
    if isinstance(x, Rows):
        inverse = tuple(to_device(i, xp) for i in x.inverse)
        offsets = tuple(None if o is None else to_device(o, xp) for o in x.offsets)
        return Rows(to_device(x.values, xp, dtype), inverse, offsets, x.ids)
    if isinstance(x, Lists):
        return Lists(to_device(x.values, xp, dtype), to_device(x.offsets, xp))
    if x is None:
        return None
    return to_device(x, xp, dtype if x.dtype.kind == "f" else None)


def _empty(result: TensorType, n: int, xp: Namespace, dtype: str) -> Any:
    if result.form is Form.SCALAR:
        return xp.zeros((), dtype)
    if result.form is Form.RAGGED:
        return None
    if not result.dtype.startswith("float"):
        return xp.full((n, *result.shape), -1, result.dtype)
    return xp.full((n, *result.shape), np.nan, dtype)


def _dy(call: Call, cotangent: Any, xp: Namespace, dtype: str) -> Any:
    if cotangent is None:
        return None
    dy = to_device(cotangent, xp, dtype)
    return Lists(dy, call.y.offsets) if isinstance(call.y, Lists) else dy


# strategies

SMALL = st.integers(1, 4)


def numbers(draw: Draw, shape: tuple[int, ...]) -> Floats:
    """Random values away from the kinks of relu and max (an example is a seed: shrinking values helps nobody).

    No two of them are so near that a step of a central difference makes the lesser the greater.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = math.prod(shape)
    places = rng.permutation(size) + rng.uniform(0.25, 0.75, size)
    values = (0.1 + 1.4 * places.reshape(shape) / max(size, 1)) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(values)


def make_case(
    draw: Draw,
    kind_name: str,
    xs: list[Floats],
    *,
    train: bool = True,
    differentiable: tuple[int, ...] | None = None,
    **attrs: Any,
) -> OpCase:
    """Return a case whose inputs are plain arrays ``[n, ...]``, with random parameters.

    Parameters
    ----------
    draw
        What the strategy was given.
    kind_name, **attrs
        The kind and its attributes; defaults are filled in.
    xs
        Inputs: floats are differentiable unless the kind is a loss.
    train
        Whether the case is one of training.
    differentiable
        Positions of the inputs whose gradients are compared; by default all floats, of a loss the first.
    """
    known = kind(kind_name)
    types = tuple(TensorType(x.shape[1:], "float32" if x.dtype.kind == "f" else str(x.dtype)) for x in xs)
    full = known.complete(attrs)
    params = {p.name: numbers(draw, p.shape) for p in known.params(full, types)}
    floats = tuple(i for i, x in enumerate(xs) if x.dtype.kind == "f")
    if known.loss:
        floats = (0, 1) if kind_name == "mse" else (0,)
    floats = floats if differentiable is None else differentiable
    return OpCase(kind_name, full, types, tuple(xs), params, len(xs[0]), known.result(full, types), floats, train)


def _shape(draw: Draw, low: int = 0, high: int = 3) -> tuple[int, ...]:
    return tuple(draw(st.lists(SMALL, min_size=low, max_size=high)))


def unary(kind_name: str, low: int = 0, **attrs: Any) -> st.SearchStrategy[OpCase]:
    """Return cases of a kind with one input of any shape with at least ``low`` dimensions."""

    @st.composite
    def case(draw: Draw) -> OpCase:
        return make_case(draw, kind_name, [numbers(draw, (draw(SMALL), *_shape(draw, low)))], **attrs)

    return case()


def _broadcast(kind_name: str, most: int) -> st.SearchStrategy[OpCase]:
    @st.composite
    def case(draw: Draw) -> OpCase:
        n, shape, xs = draw(SMALL), _shape(draw), []
        for _ in range(draw(st.integers(2, most))):
            cut = draw(st.integers(0, len(shape)))
            xs.append(numbers(draw, (n, *(1 if draw(st.booleans()) else d for d in shape[cut:]))))
        return make_case(draw, kind_name, xs)

    return case()


@st.composite
def _dense(draw: Draw) -> OpCase:
    x = numbers(draw, (draw(SMALL), *_shape(draw, 1)))
    return make_case(draw, "dense", [x], width=draw(SMALL), bias=draw(st.booleans()))


@st.composite
def _matmul(draw: Draw) -> OpCase:
    b, m, k, n = (draw(SMALL) for _ in range(4))
    flip = draw(st.booleans())
    xs = [numbers(draw, (b, m, k)), numbers(draw, (b, n, k) if flip else (b, k, n))]
    return make_case(draw, "matmul", xs, transpose_b=flip)


@st.composite
def _cross(draw: Draw) -> OpCase:
    shape = (draw(SMALL), draw(SMALL))
    return make_case(
        draw, "cross", [numbers(draw, shape), numbers(draw, shape)], rank=draw(st.none() | st.integers(1, 3))
    )


@st.composite
def _concat(draw: Draw) -> OpCase:
    n, count = draw(SMALL), draw(SMALL)
    if draw(st.booleans()):
        return make_case(draw, "concat", [numbers(draw, (n, *_shape(draw))) for _ in range(count)])
    shape = _shape(draw, 1)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    shapes = [[*shape] for _ in range(count)]
    for s in shapes:
        s[axis] = draw(SMALL)
    return make_case(draw, "concat", [numbers(draw, (n, *s)) for s in shapes], axis=axis)


@st.composite
def _split(draw: Draw) -> OpCase:
    x = numbers(draw, (draw(SMALL), *_shape(draw, 1)))
    axis = draw(st.integers(-(x.ndim - 1), x.ndim - 2))
    length = x.shape[axis % (x.ndim - 1) + 1]
    start = draw(st.integers(0, length - 1))
    return make_case(draw, "split", [x], axis=axis, start=start, stop=draw(st.integers(start + 1, length)))


@st.composite
def _reshape(draw: Draw) -> OpCase:
    a, b, c = draw(SMALL), draw(SMALL), draw(SMALL)
    shapes = [(a * b * c,), (a, b, c), (a * b, c), (1, a, -1), (-1,)]
    x = numbers(draw, (draw(SMALL), *draw(st.sampled_from(shapes[:3]))))
    return make_case(draw, "reshape", [x], shape=draw(st.sampled_from(shapes)))


def _reduce(kind_name: str) -> st.SearchStrategy[OpCase]:
    @st.composite
    def case(draw: Draw) -> OpCase:
        x = numbers(draw, (draw(SMALL), *_shape(draw)))
        rank = x.ndim - 1
        axes = draw(st.lists(st.integers(-rank, rank - 1), max_size=rank)) if rank else []
        axis = draw(st.sampled_from([None, tuple(axes), axes[0] if axes else None]))
        return make_case(draw, kind_name, [x], axis=axis, keepdims=draw(st.booleans()))

    return case()


@st.composite
def _softmax(draw: Draw) -> OpCase:
    x = numbers(draw, (draw(SMALL), *_shape(draw, 1)))
    return make_case(draw, "softmax", [x], axis=draw(st.integers(-(x.ndim - 1), x.ndim - 2)))


@st.composite
def _dropout(draw: Draw) -> OpCase:
    x = numbers(draw, (draw(SMALL), *_shape(draw)))
    rate = draw(st.sampled_from([0.0, 0.25, 0.5, 0.9]))
    return make_case(draw, "dropout", [x], rate=rate, train=draw(st.booleans()))


@st.composite
def _dot_interaction(draw: Draw) -> OpCase:
    n, dim = draw(SMALL), draw(SMALL)
    shapes = draw(st.lists(st.sampled_from([(dim,), (1, dim), (3, dim)]), min_size=1, max_size=3))
    xs = [numbers(draw, (n, *s)) for s in [*shapes, (2, dim)]]
    return make_case(draw, "dot_interaction", xs)


@st.composite
def _fm(draw: Draw) -> OpCase:
    return make_case(draw, "fm", [numbers(draw, (draw(SMALL), draw(SMALL), draw(SMALL)))])


def _weights(draw: Draw, n: int) -> list[Floats]:
    return [np.abs(numbers(draw, draw(st.sampled_from([(n,), (n, 1)]))))] if draw(st.booleans()) else []


@st.composite
def _logloss(draw: Draw) -> OpCase:
    n = draw(SMALL)
    shapes = st.sampled_from([(n,), (n, 1)])
    label = (numbers(draw, draw(shapes)) > 0).astype(float)
    return make_case(draw, "logloss", [10 * numbers(draw, draw(shapes)), label, *_weights(draw, n)])


@st.composite
def _softmax_cross_entropy(draw: Draw) -> OpCase:
    n, classes = draw(SMALL), draw(SMALL)
    label = (np.abs(numbers(draw, (n,))) * 1000).astype(np.int64) % classes
    return make_case(draw, "softmax_cross_entropy", [5 * numbers(draw, (n, classes)), label, *_weights(draw, n)])


@st.composite
def _mse(draw: Draw) -> OpCase:
    n, width = draw(SMALL), draw(SMALL)
    return make_case(draw, "mse", [numbers(draw, (n, width)), numbers(draw, (n, width)), *_weights(draw, n)])


@st.composite
def _gather_pool(draw: Draw) -> OpCase:
    n, unique, low, dim = draw(SMALL), draw(st.integers(1, 6)), draw(st.integers(0, 2)), draw(SMALL)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ragged, pooling = draw(st.booleans()), draw(st.sampled_from(["none", "sum", "mean", "max"]))
    if ragged:
        offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, n))])
        inverse, ids = rng.integers(0, unique, offsets[-1]), TensorType((), "uint64", Form.RAGGED, 1.5)
    else:
        shape = draw(st.sampled_from([(), (1,), (3,)]))
        offsets, inverse, ids = None, rng.integers(0, unique, (n, *shape)), TensorType(shape, "uint64")
    values = numbers(draw, (unique, low + dim + draw(st.integers(0, 2))))
    names = np.arange(unique, dtype=np.uint64) + np.uint64(5)
    padding = draw(st.sampled_from([None, 5, 4]))  # an id of the batch, or one that is not there
    rows = Rows(values, (inverse[:0], inverse.astype(np.int32)), (None, offsets), names)
    attrs = {"columns": (low, low + dim), "source": 1, "pooling": pooling, "padding_id": padding}
    types = (TensorType((3, values.shape[1]), "float32", Form.ROWS), ids)
    result = kind("gather_pool").result(attrs, types)
    return OpCase("gather_pool", attrs, types, (rows, None), {}, n, result, (0,))


CASES: dict[str, st.SearchStrategy[OpCase]] = {
    "add": _broadcast("add", 4),
    "concat": _concat(),
    "cross": _cross(),
    "dense": _dense(),
    "dot_interaction": _dot_interaction(),
    "dropout": _dropout(),
    "fm": _fm(),
    "gather_pool": _gather_pool(),
    "layer_norm": unary("layer_norm", 1, eps=1e-3),
    "logloss": _logloss(),
    "matmul": _matmul(),
    "mean": _reduce("mean"),
    "mse": _mse(),
    "mul": _broadcast("mul", 2),
    "relu": unary("relu"),
    "reshape": _reshape(),
    "sigmoid": unary("sigmoid"),
    "softmax": _softmax(),
    "softmax_cross_entropy": _softmax_cross_entropy(),
    "split": _split(),
    "sub": _broadcast("sub", 2),
    "sum": _reduce("sum"),
    "tanh": unary("tanh"),
}
