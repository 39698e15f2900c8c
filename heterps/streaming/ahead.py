"""The next portion is looked for, and brought here, while the one before trains."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heterps.runtime.cuts.saved_model import made_folder
from heterps.streaming.portion import Nothing, Portion, StreamSource
from heterps.tables.snapshots.disk import remove_tree

__all__ = ["Backoff", "Brought", "PortionAhead"]


@dataclass(frozen=True)
class Backoff:
    """How long to wait before a source is asked again: longer each time, up to a limit.

    >>> [Backoff(1.0, 10.0).wait_s(n) for n in range(5)]
    [1.0, 2.0, 4.0, 8.0, 10.0]
    """

    first_s: float = 1.0
    most_s: float = 60.0

    def wait_s(self, asked: int) -> float:
        """Return the pause after so many answers of nothing."""
        return min(self.most_s, self.first_s * 2.0 ** min(asked, 60))


@dataclass(frozen=True)
class Brought:
    """A portion with its rows in files."""

    portion: Portion
    files: tuple[str, ...]


class PortionAhead:
    """Asks a source for the portion behind a position, with growing pauses, and fetches it; one at a time, in a thread.

    Parameters
    ----------
    source
        Asked in the thread only.
    folder
        Portions are fetched into numbered folders below it.
    sequence, after
        How many portions there were before, and where the source stands behind them.
    noted
        Portions that were begun before a crash, after those: they come first, as they were.
    backoff
        Between questions.
    """

    def __init__(
        self,
        source: StreamSource,
        folder: Path,
        sequence: int,
        after: Any,
        noted: Sequence[Portion] = (),
        backoff: Backoff | None = None,
    ) -> None:
        self._source, self._folder, self._backoff = source, folder, backoff or Backoff()
        self._sequence, self._after, self._noted = sequence, after, list(noted)
        self._changed = threading.Condition()
        self._answer: Brought | Nothing | None = None  # what the source said of what comes next; None: not asked yet
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="heterps-stream-ahead", daemon=True)
        self._thread.start()

    def look(self, stopped: Callable[[], bool]) -> Brought | Nothing | None:
        """Return what comes next; None where it is not known before somebody stops us."""
        with self._changed:
            while self._answer is None and self._error is None:
                if stopped():
                    return None
                self._changed.wait(_GLANCE_S)
            if self._error is not None:
                raise self._error
            return self._answer

    def wait(self, stopped: Callable[[], bool]) -> None:
        """Return once there may be another answer than nothing."""
        with self._changed:
            while isinstance(self._answer, Nothing) and self._error is None and not stopped():
                self._changed.wait(_GLANCE_S)

    def go_on(self, portion: Portion) -> None:
        """Look for what comes behind a portion; its own files stay until :meth:`forget`."""
        with self._changed:
            self._sequence, self._after, self._answer = self._sequence + 1, portion.position, None
            self._changed.notify_all()

    def forget(self, upto: int) -> None:
        """Remove the files of portions that a checkpoint holds."""
        for path in self._folder.glob("*") if self._folder.is_dir() else ():
            if path.name.isdigit() and int(path.name) <= upto:
                remove_tree(path)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    # --- in the thread

    def _run(self) -> None:
        asked = 0
        while not self._closed:
            with self._changed:
                if isinstance(self._answer, Brought):
                    self._changed.wait()
                    asked = 0
                    continue
            try:
                answer = self._ask()
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._answer = answer
                self._changed.notify_all()
                if isinstance(answer, Nothing) and not self._closed:
                    self._changed.wait(self._backoff.wait_s(asked))
                    asked += 1

    def _ask(self) -> Brought | Nothing:
        portion = self._noted.pop(0) if self._noted else self._source.poll(self._after)
        if isinstance(portion, Nothing):
            return portion
        folder = self._folder / f"{self._sequence + 1:08d}"
        if folder.exists():  # a fetch that was cut short
            remove_tree(folder)
        files = () if portion.missing else self._source.fetch(portion, made_folder(folder))
        return Brought(portion, files)


_GLANCE_S = 0.2
