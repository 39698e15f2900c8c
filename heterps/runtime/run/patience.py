"""A run that stands still for want of something says so instead of waiting for ever."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from heterps.errors import ClusterError

__all__ = ["Patience"]

_LOOK_S = 0.1
_STEP_S = 1.0


class Patience:
    """Waits a limited time for what is missing.

    Parameters
    ----------
    limit_s
        How long the same thing may be missing.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._what: tuple[str, ...] = ()  # missing at the last look
        self._waited_s, self._last = 0.0, monotonic()  # how long it was, up to the last look

    def check(self, missing: Callable[[], tuple[str, ...]], note: str = "") -> None:
        """Look, now and then, and raise if the same thing has been missing for too long.

        Parameters
        ----------
        missing
            Says what is missing, in words; empty where nothing is.
        note
            What a user should know besides.
        """
        now = monotonic()
        if now - self._last < _LOOK_S:
            return
        what = missing()
        # A caller that was busy for long has not waited: what it waits for may stand in its inbox.
        self._waited_s += min(now - self._last, _STEP_S)
        self._last = now
        if what != self._what or not what:
            self._what, self._waited_s = what, 0.0
        elif self._waited_s > self._limit_s:
            raise ClusterError(
                f"the run has waited {self._limit_s:g} s for {' and '.join(what)}{note}. Start workers for it, "
                "or raise heterps.timeouts.workers; a run with checkpoints goes on with launch(plan, resume=DIR)"
            )
