"""Model-building functions: further activations and comparisons."""

from __future__ import annotations

import heterps.graph.builtin_pointwise  # noqa: F401  (registers the kinds)
from heterps.graph.tensor import Tensor, build

__all__ = ["cosine", "dice", "gelu", "l2_normalize", "prelu", "top_k", "top_k_indices"]


def gelu(x: Tensor, *, name: str | None = None) -> Tensor:
    """``x`` times the normal distribution function of x, in its tanh form."""
    return build("gelu", x, name=name)


def prelu(x: Tensor, *, first: float = 0.25, name: str | None = None) -> Tensor:
    """``x`` where positive, else ``slope * x`` with a learnt slope per column that starts at ``first``."""
    return build("prelu", x, name=name, first=first)


def dice(x: Tensor, *, momentum: float = 0.99, eps: float = 1e-8, name: str | None = None) -> Tensor:
    """Mix ``x`` and ``slope * x`` by how large x is among the batch (Zhou et al., 2018)."""
    return build("dice", x, name=name, momentum=momentum, eps=eps)


def cosine(a: Tensor, b: Tensor, *, eps: float = 1e-12, name: str | None = None) -> Tensor:
    """Cosine of the angle between the vectors along the last axis."""
    return build("cosine", a, b, name=name, eps=eps)


def l2_normalize(x: Tensor, *, eps: float = 1e-12, name: str | None = None) -> Tensor:
    """``x / sqrt(sum x^2 + eps)`` along the last axis."""
    return build("l2_normalize", x, name=name, eps=eps)


def top_k(x: Tensor, k: int, *, name: str | None = None) -> Tensor:
    """Return the k largest numbers along the last axis, largest first."""
    return build("top_k", x, name=name, k=k)


def top_k_indices(x: Tensor, k: int, *, name: str | None = None) -> Tensor:
    """Return where the k largest numbers stand (int64); of equal numbers the first counts as larger."""
    return build("top_k_indices", x, name=name, k=k)
