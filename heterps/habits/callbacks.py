"""Objects that are told how training goes, and may end it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

from heterps.errors import RunError
from heterps.runtime.report.progress import Progress

__all__ = ["Callback", "Listener", "heard", "listeners"]

_log = logging.getLogger("heterps")


class Callback:
    """Is told how training goes; every method may be left as it is.

    :meth:`on_report` and :meth:`on_pass` end training by returning True: what was trained stays, and the report during
    which that happened is the last. Methods run in the thread that iterates over reports; what they raise ends
    training, too, and reaches the caller.

    Examples
    --------
    >>> class Speed(Callback):
    ...     def on_report(self, progress):
    ...         print(f"{progress.samples_per_s:,.0f} samples a second")
    """

    #: Whether it goes by the validation: training without ``valid`` is refused.
    needs_valid: ClassVar[bool] = False
    #: Whether it notes something at the end of a pass. Each pass is a run of its own then: all its cuts have the notes
    #: of the passes before, so that a training that is resumed knows what the callback knew.
    takes_notes: ClassVar[bool] = False

    def on_begin(self, session: Any) -> None:
        """Before the first batch."""

    def on_report(self, progress: Progress) -> bool | None:
        """With every report, about once a second and at the end of each pass."""

    def on_pass(self, progress: Progress) -> bool | None:
        """With the last report of each pass, after :meth:`on_report`; ``progress.valid`` has the validation."""

    def on_cut(self, progress: Progress) -> None:
        """With the first report after a cut was completed; ``progress.cut`` is its folder."""

    def on_end(self) -> None:
        """When training is over, however it ended."""


Listener = Callback | Callable[[Progress], bool | None]


class _OnReport(Callback):
    """A function as a callback."""

    def __init__(self, function: Callable[[Progress], bool | None]) -> None:
        self._function = function

    def on_report(self, progress: Progress) -> bool | None:
        return self._function(progress)


def listeners(given: Sequence[Listener] | Listener) -> tuple[Callback, ...]:
    """Return what was given as callbacks; a function is told every report."""
    several = given if isinstance(given, Sequence) else (given,)
    for each in several:
        if isinstance(each, type) or not (isinstance(each, Callback) or callable(each)):
            what = f"the class {each.__name__}: write {each.__name__}(...)" if isinstance(each, type) else repr(each)
            raise RunError(f"callbacks takes hps.Callback objects and functions of a Progress, not {what}")
    return tuple(each if isinstance(each, Callback) else _OnReport(each) for each in several)


def heard(
    reports: Generator[Progress, None, None], callbacks: Sequence[Callback], session: Any
) -> Generator[Progress, None, None]:
    """Pass on what training reports, each callback being told first; end where one of them says so."""
    begun: list[Callback] = []
    try:
        for each in callbacks:
            begun.append(each)
            each.on_begin(session)
        with closing(reports):
            yield from _told(reports, callbacks)
    except BaseException:
        for error in _ended(begun):  # what ended training is what the caller is to see
            _log.warning("a callback failed when training ended: %s: %s", type(error).__name__, error)
        raise
    for error in _ended(begun):  # after the run, so that tables may be loaded
        raise error


def _told(reports: Generator[Progress, None, None], callbacks: Sequence[Callback]) -> Generator[Progress, None, None]:
    cut = ""
    for progress in reports:
        if progress.cut != cut:
            cut = progress.cut
            for each in callbacks:
                each.on_cut(progress)
        asked = [_wants_end(each, progress) for each in callbacks]  # everyone is told, whoever ends it
        if any(asked):
            yield replace(progress, done=True)
            return
        yield progress


def _wants_end(each: Callback, progress: Progress) -> bool:
    answers = [each.on_report(progress)]
    if progress.epoch_done:
        answers.append(each.on_pass(progress))
    return any(answer is True for answer in answers)


def _ended(callbacks: Sequence[Callback]) -> list[Exception]:
    """Tell everyone that it is over; return what they raised."""
    errors: list[Exception] = []
    for each in callbacks:
        try:
            each.on_end()
        except Exception as error:
            errors.append(error)
    return errors
