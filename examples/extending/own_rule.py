"""A rule of your own: Lion (Chen et al. 2023), which steps by the sign of a moving average of gradients.

A rule is a frozen dataclass, so that it is saved with the model, and a loop that numba compiles into the tables' own:
it changes one row at a time, in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from heterps.tables import RULES, Rule


@njit(nogil=True)
def lion_loop(p, k, w, w0, s, s0, g, g0, n, scale):
    """Change ``w[w0:w0 + n]`` and the slots ``s[s0:s0 + n]`` by ``g[g0:g0 + n]``; ``p[k, 2:]`` are the numbers."""
    lr, beta1, beta2, decay = p[k, 2], p[k, 3], p[k, 4], p[k, 5]
    for i in range(n):
        m, gradient = s[s0 + i], g[g0 + i]
        w[w0 + i] -= lr * (np.sign(beta1 * m + (1 - beta1) * gradient) + decay * w[w0 + i])
        s[s0 + i] = beta2 * m + (1 - beta2) * gradient


@RULES.add
@dataclass(frozen=True)
class Lion(Rule):
    """``w -= lr * (sign(b1*m + (1-b1)*g) + decay*w); m = b2*m + (1-b2)*g``."""

    loop: ClassVar = lion_loop
    lr: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.99
    decay: float = 0.0

    def slots(self, n):
        """Return one moment a value."""
        return n

    def numbers(self, step):
        """Return what the loop finds in ``p[k, 2:]``; ``step`` counts applied batches."""
        return self.lr, self.beta1, self.beta2, self.decay
