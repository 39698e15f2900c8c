"""Model-building functions over images ``(height, width, channels)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import heterps.graph.builtin_vision  # noqa: F401  (registers the kinds)
from heterps.graph.tensor import Tensor, build

__all__ = ["avg_pool", "batch_norm", "conv2d", "global_avg_pool", "global_max_pool", "max_pool"]

Pair = int | tuple[int, int]


def conv2d(
    x: Tensor,
    channels: int,
    kernel: Pair = 3,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    groups: int = 1,
    bias: bool = True,
    init: Mapping[str, Any] | Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolve an image.

    Parameters
    ----------
    x
        ``(height, width, channels)``.
    channels
        Of the result.
    kernel, stride, padding
        One number, or (vertical, horizontal).
    groups
        Each group of result channels reads its own part of the input channels; ``groups = channels`` is depthwise.
    """
    return build(
        "conv2d",
        x,
        name=name,
        channels=channels,
        kernel=kernel,
        stride=stride,
        padding=padding,
        groups=groups,
        bias=bias,
        init=init,
    )


def max_pool(
    x: Tensor, kernel: Pair, *, stride: Pair | None = None, padding: Pair = 0, name: str | None = None
) -> Tensor:
    """Largest number of each window and channel; windows lie side by side without a ``stride``."""
    return build("max_pool", x, name=name, kernel=kernel, stride=kernel if stride is None else stride, padding=padding)


def avg_pool(
    x: Tensor, kernel: Pair, *, stride: Pair | None = None, padding: Pair = 0, name: str | None = None
) -> Tensor:
    """Mean of each window and channel, padding not counted."""
    return build("avg_pool", x, name=name, kernel=kernel, stride=kernel if stride is None else stride, padding=padding)


def global_avg_pool(x: Tensor, *, name: str | None = None) -> Tensor:
    """Mean over height and width: ``(channels,)``."""
    return build("mean", x, name=name, axis=(0, 1), keepdims=False)


def global_max_pool(x: Tensor, *, name: str | None = None) -> Tensor:
    """Largest number of each channel: ``(channels,)``."""
    whole = max_pool(x, (x.shape[0], x.shape[1]), name=f"{name}.window" if name else None)
    return build("reshape", whole, name=name, shape=(x.shape[2],))


def batch_norm(x: Tensor, *, momentum: float = 0.9, eps: float = 1e-5, name: str | None = None) -> Tensor:
    """Normalise each channel (last axis) over the batch, then scale and shift.

    Outside training running statistics take the place of the batch's; each batch moves them by ``1 - momentum``.
    """
    return build("batch_norm", x, name=name, momentum=momentum, eps=eps)
