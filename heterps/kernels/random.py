"""Randomness that is a function of (seed, op, batch key, position): any worker, any attempt draws the same."""

from __future__ import annotations

import hashlib
from typing import Any

from heterps.device.arrays import Array, Namespace

__all__ = ["GOLDEN", "batch_seed", "op_salt", "uniform_bits"]

GOLDEN = 0x9E3779B97F4A7C15  # increment of the splitmix64 sequence
_MASK = 2**64 - 1


def batch_seed(seed: int, *key: Any) -> int:
    """Return a 64-bit number for a run's seed and a batch key (its parts, or anything with a stable text form)."""
    text = "|".join(map(str, (seed, *key)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def op_salt(name: str) -> int:
    """Return a 64-bit number for an op, to be added to the batch's."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def mix(value: int) -> int:
    """Scramble 64 bits (the finaliser of splitmix64)."""
    z = value & _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def uniform_bits(xp: Namespace, seed: int, size: int) -> Array:
    """Return ``size`` random uint64, the splitmix64 sequence after ``seed``."""
    u = xp.uint64
    z = xp.arange(1, size + 1, dtype=u) * u(GOLDEN) + u(seed)
    z = (z ^ (z >> u(30))) * u(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u(27))) * u(0x94D049BB133111EB)
    return z ^ (z >> u(31))
