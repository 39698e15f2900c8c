"""Randomness that is a function of (seed, op, batch key, position): any worker, any attempt draws the same."""

from __future__ import annotations

import hashlib
from typing import Any

from heterps.device.arrays import Array, Namespace
from heterps.mixing import GOLDEN, finalise_array

__all__ = ["batch_seed", "op_salt", "uniform_bits"]


def batch_seed(seed: int, *key: Any) -> int:
    """Return a 64-bit number for a run's seed and a batch key (its parts, or anything with a stable text form)."""
    text = "|".join(map(str, (seed, *key)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def op_salt(name: str) -> int:
    """Return a 64-bit number for an op, to be added to the batch's."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def uniform_bits(xp: Namespace, seed: int, size: int) -> Array:
    """Return ``size`` random uint64, the splitmix64 sequence after ``seed``."""
    u = xp.uint64
    return finalise_array(xp.arange(1, size + 1, dtype=u) * u(GOLDEN) + u(seed))
