"""Files by day and pass as a source: which pass comes next is a pure choice among what lies there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from typing import Any

from heterps.data.core.files import is_url
from heterps.data.core.fingerprint import digest
from heterps.errors import DataError
from heterps.streaming.found_files import FoundFile, copied, listed, settled_s
from heterps.streaming.pass_choice import FoundPass, PassSchedule, Past, pick
from heterps.streaming.pattern import NamedPass, PassPattern
from heterps.streaming.portion import Nothing, Portion, day_order

__all__ = ["FolderSource"]


class FolderSource:
    """Passes that are files or folders, named by day and pass.

    Parameters
    ----------
    pattern
        See :class:`~heterps.streaming.pattern.PassPattern`; a path or a URL. All files of one day and pass are one
        pass; where the pattern names folders, all files in them.
    done
        A pass is complete once this file is there: a name beside its files, or a pattern such as
        ``logs/{day}/{pass}.done``.
    quiet_s
        Without ``done``: a pass is complete once its files have not changed for so long.
    days, passes
        What is expected, in order. A pass of the list is waited for; without lists what is there is taken in its
        order. A day of which all passes were taken has ended; without ``passes`` one ends when a later one begins.
    give_up_s
        How long to wait for a pass of the list once a later one is there, or its day is listed; then it counts as
        missing, and as late if it comes after all. None: for ever.
    late_days
        Of so many days with data the stream remembers which passes it took; older passes are left out.
    copy
        Copy files that are URLs beside the model while the pass before trains; else they are read where they lie.
    """

    def __init__(
        self,
        pattern: str | os.PathLike[str],
        *,
        done: str | None = None,
        quiet_s: float = 0.0,
        days: Sequence[str] | None = None,
        passes: Sequence[str] | None = None,
        give_up_s: float | None = None,
        late_days: int = 7,
        copy: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.pattern = PassPattern(os.fspath(pattern))
        self.schedule = PassSchedule(_unique("days", days), _unique("passes", passes), give_up_s)
        self._done, self._quiet_s, self._late_days, self._copy, self._clock = done, quiet_s, late_days, copy, clock
        self._seen: dict[NamedPass, tuple[str, float]] = {}  # since when the files of a pass are as they are
        self._awaited: tuple[NamedPass | None, float] = (None, 0.0)  # what is waited for, and since when

    def poll(self, after: Any) -> Portion | Nothing:
        """Look what is there."""
        past, now = Past.from_json(after, self._late_days), self._clock()
        found = self._found(past, now)
        choice = pick(found, past, self.schedule, self._waited)
        if choice.waits_for not in (None, self._awaited[0]):
            self._awaited = (choice.waits_for, now)
            choice = pick(found, past, self.schedule, self._waited)  # it may not be waited for at all
        return choice.result

    def _waited(self, which: NamedPass) -> float:
        """Return for how long a pass has been waited for."""
        awaited, since = self._awaited
        return self._clock() - since if which == awaited else 0.0

    def _found(self, past: Past, now: float) -> list[FoundPass]:
        files: dict[NamedPass, list[FoundFile]] = {}
        for file in listed(self.pattern, past.may_come):
            files.setdefault(file.which, []).append(file)
        self._seen = {which: seen for which, seen in self._seen.items() if which in files}
        passes = [self._one(which, its, now) for which, its in files.items()]
        return sorted(passes, key=lambda one: (day_order(one.which.day), day_order(one.which.name)))

    def _one(self, which: NamedPass, files: list[FoundFile], now: float) -> FoundPass:
        mark = digest([[file.path, file.size, file.changed] for file in files])
        rows = tuple(file.path for file in files if file.size and not file.is_mark(self._done))
        ready = self._is_done(which, files) if self._done else self._is_quiet(which, mark, files, now)
        return FoundPass(which, rows, ready, is_growing=not ready and not self._done)

    def _is_done(self, which: NamedPass, files: list[FoundFile]) -> bool:
        assert self._done is not None
        if "/" not in self._done and "{" not in self._done:
            return any(os.path.basename(file.path) == self._done for file in files) or any(
                _exists(f"{folder}/{self._done}") for folder in {os.path.dirname(file.path) for file in files}
            )
        return _exists(PassPattern(self._done).filled(which) if "{" in self._done else self._done)

    def _is_quiet(self, which: NamedPass, mark: str, files: list[FoundFile], now: float) -> bool:
        """Whether nothing has changed for long enough: as far as we saw it, or as the files themselves say."""
        before = self._seen.get(which)
        if before is None or before[0] != mark:
            self._seen[which] = before = (mark, now)
        return max(now - before[1], settled_s(files, time())) >= self._quiet_s

    def fetch(self, portion: Portion, folder: Path) -> tuple[str, ...]:
        """Have the files read into the machine's memory, or copied where that is wanted."""
        if self._copy:
            return tuple(copied(path, folder) if is_url(path) else path for path in portion.files)
        for path in portion.files:
            _read_ahead(path)
        return portion.files

    def commit(self, position: Any) -> None:
        """Nothing to do: files stay."""

    def close(self) -> None:
        """Nothing to give back."""


def _unique(what: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    given = tuple(names)
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None or not given:
        raise DataError(f"the list of {what} names {twice!r} twice" if given else f"the list of {what} is empty")
    return given


def _exists(path: str) -> bool:
    if not is_url(path):
        return os.path.exists(path)
    import fsspec

    filesystem, inner = fsspec.core.url_to_fs(path)
    return bool(filesystem.exists(inner))


def _read_ahead(path: str) -> None:
    """Ask the kernel to read a file that will be needed soon; a wish, no more."""
    with suppress(OSError):
        if not is_url(path):
            number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(number)
