"""A run that does nothing though there is something to do ends, and says who waits for whom."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from heterps.errors import RunError
from heterps.protocol.run.state import RunState

__all__ = ["Watchdog"]

_STEP_S = 1.0
_log = logging.getLogger("heterps")


class Watchdog:
    """Watches a run from its own loop: time that the loop was away, as in a user's slow loop body, does not count.

    While the run waits for a disk (a cut is loaded, or the last one written) it only warns: how long that may take is
    for the worker's life sign to say.

    Parameters
    ----------
    limit_s
        How long nothing may move.
    stacks
        Says what threads are doing, here and on workers.
    """

    def __init__(self, limit_s: float, stacks: Callable[[], str]) -> None:
        self._limit_s, self._stacks = limit_s, stacks
        self._moves = -1  # of the run at the last look
        self._waited_s, self._last = 0.0, monotonic()  # how long nothing has moved, up to the last look

    def look(self, run: RunState) -> None:
        """Look once a turn; raise if nothing has moved for too long."""
        now = monotonic()
        self._waited_s += min(now - self._last, _STEP_S)
        self._last = now
        if run.moves != self._moves:
            self._moves, self._waited_s = run.moves, 0.0
        elif self._waited_s > self._limit_s:
            self._waited_s = 0.0
            self._bark(run)

    def _bark(self, run: RunState) -> None:
        waits = "\n".join(f"- {what}" for what in run.standing()) or "- nothing that the run knows of"
        if run.waits_for_disk:
            _log.warning("nothing has moved for %g s; the run waits for:\n%s", self._limit_s, waits)
            return
        error = RunError(
            f"no batch was applied for {self._limit_s:g} s though there is work to do; the run waits for:\n{waits}\n"
            "If that is no mistake (a batch takes so long), raise heterps.timeouts.progress"
        )
        error.add_note(f"What threads were doing:\n{self._stacks()}")
        raise error
