"""Which reports are worth reading: before the first batch most say what the one before said."""

from __future__ import annotations

from heterps.runtime.report.progress import Progress

__all__ = ["ReportNews"]

#: Reports that would say the same again, for one that does.
_SELDOM = 5


class ReportNews:
    """Knows what was said last, and when.

    Parameters
    ----------
    report_s
        Seconds between reports.
    """

    def __init__(self, report_s: float) -> None:
        self._patience_s = _SELDOM * report_s
        self._said, self._said_s = "", 0.0

    def is_in(self, progress: Progress) -> bool:
        """Say whether a report tells anything new, or has to say that nothing is."""
        late = progress.seconds - self._said_s >= self._patience_s
        new = progress.samples or progress.moves or progress.bad_rows or progress.compiling != self._said
        if new or late:
            self._said, self._said_s = progress.compiling, progress.seconds
        return bool(new or late)
