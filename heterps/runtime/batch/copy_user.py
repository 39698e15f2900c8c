"""Who trains on a working copy: one attempt at a time, and what it leaves to the next one."""

from __future__ import annotations

__all__ = ["CopyUser"]


class CopyUser:
    """Lets one attempt after another train on a copy.

    Whoever leaves something unfinished leaves nothing: its batches are trained again, here or elsewhere, so what was
    learned from them is dropped with the whole copy. The same if a host returned to an earlier state between attempts.
    """

    def __init__(self) -> None:
        self._user: int | None = None  # the attempt that trains on it
        self._terms: tuple[int, ...] | None = None  # of hosts, when the last user left

    def _clear(self) -> None:
        """Forget everything: rows are asked for when they are needed."""
        raise NotImplementedError

    def enter(self, attempt: int, trainer: int, terms: tuple[int, ...]) -> None:
        """Let an attempt train on it."""
        if self._user is not None or (self._terms is not None and self._terms != terms):
            self._clear()
        self._user = attempt

    def belongs_to(self, attempt: int) -> bool:
        """Say whether an attempt may still use it: another one may have begun before it was told to end."""
        return self._user == attempt

    def leave(self, attempt: int, terms: tuple[int, ...], *, whole: bool) -> None:
        """End an attempt; ``whole`` if all its units are settled and acknowledged."""
        if self._user == attempt:
            self._user, self._terms = None, terms
            if not whole:
                self._clear()
