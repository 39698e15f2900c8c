"""A run that stands still for want of something says so instead of waiting for ever."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from heterps.errors import ClusterError

__all__ = ["Patience"]

_STEP_S = 1.0


class Patience:
    """Waits a limited time for what is missing.

    Parameters
    ----------
    missing
        Says what is missing, in words; empty where nothing is.
    limit_s
        How long the same thing may be missing.
    """

    def __init__(self, missing: Callable[[], tuple[str, ...]], limit_s: float) -> None:
        self._missing, self._limit_s = missing, limit_s
        self._what: tuple[str, ...] = ()
        self._waited_s, self._last = 0.0, monotonic()

    def check(self) -> None:
        """Raise if something has been missing for too long."""
        what, now = self._missing(), monotonic()
        # A caller that was busy for long has not waited: what it waits for may stand in its inbox.
        self._waited_s += min(now - self._last, _STEP_S)
        self._last = now
        if what != self._what or not what:
            self._what, self._waited_s = what, 0.0
        elif self._waited_s > self._limit_s:
            raise ClusterError(
                f"the run has waited {self._limit_s:g} s for {' and '.join(what)}. Start workers for it, or raise "
                "heterps.timeouts.workers; a run with checkpoints goes on with launch(plan, resume=DIR)"
            )
