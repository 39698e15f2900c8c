"""Writes one shard host's part of a cut, beside training."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from heterps.errors import CheckpointError
from heterps.protocol.words.events import CutFailed, CutWritten, Event
from heterps.runtime.cuts.cut_store import HostPart
from heterps.runtime.own_threads import start_thread
from heterps.tables import Kind, ShardCut, write_part

__all__ = ["CutWriter"]


class CutWriter:
    """One part at a time, each in a thread of its own.

    Parameters
    ----------
    host
        Number of the shard host.
    report
        Takes events for the run.

    Attributes
    ----------
    parts
        Of the last cut that is on disk, by its number.
    """

    def __init__(self, host: int, report: Callable[[Event], None]) -> None:
        self._host, self._report = host, report
        self.parts: dict[int, HostPart] = {}
        self._rests = threading.Event()  # nothing is being written
        self._rests.set()

    def rest(self) -> None:
        """Wait for a cut that the run may have given up, because a host was lost, and that is still written here."""
        self._rests.wait()

    def write(
        self, rows: ShardCut, folder: str, copy: int, cut: int, state: dict[str, Any], counts: Mapping[str, Any]
    ) -> None:
        """Begin to write rows as they are now, and tell when they are on disk, or why they are not."""
        self._rests.clear()

        def work() -> None:
            try:
                with rows:
                    part = write_part(rows, folder, kind=_kind(rows, counts), host=self._host)
            finally:
                self._rests.set()
            self.parts = {cut: HostPart(part.to_json(), state, counts)}
            self._report(CutWritten(copy, cut))

        def failed(error: Exception) -> None:
            self._report(CutFailed(copy, cut, f"{type(error).__name__}: {error}"))

        start_thread(f"cut-{cut}", work, failed=failed)


def _kind(rows: ShardCut, counts: Mapping[str, Any]) -> Kind:
    """Return what is written; refuse a state that would take the place of a good one."""
    if streak := counts["bad_streak"]:
        raise CheckpointError(f"the loss of the last {streak} batches is not a finite number")
    return "changes" if rows.partial else "checkpoint"
