"""Reports that somebody must ask for: training goes on only while they are."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator, Iterator

from heterps.runtime.report.progress import Progress

__all__ = ["AwaitedReports"]


class AwaitedReports(Iterator[Progress]):
    """The reports of a training, one after another; warns if nobody ever asks for the first.

    Parameters
    ----------
    reports
        What trains while it is iterated over.
    depth
        How many calls up the one stands that a warning names.
    """

    def __init__(self, reports: Generator[Progress, None, None], depth: int = 2) -> None:
        self._reports, self._begun = reports, False
        caller = sys._getframe(depth)
        self._place = (caller.f_code.co_filename, caller.f_lineno)

    def __next__(self) -> Progress:
        self._begun = True
        return next(self._reports)

    def close(self) -> None:
        """End training at the next batch; what was applied stays."""
        self._begun = True
        self._reports.close()

    def __del__(self) -> None:
        if not self._begun:
            warnings.warn_explicit(
                "session.train(...) was never iterated over, so nothing was trained: write `for progress in "
                "session.train(...):`, or call session.fit(...)",
                UserWarning,
                *self._place,
            )
