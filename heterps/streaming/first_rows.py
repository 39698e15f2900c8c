"""The rows that a stream begins with, before there is a model: what columns there are decides what it looks like."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from heterps.runtime.cuts.saved_model import made_folder
from heterps.streaming.ahead import Backoff
from heterps.streaming.journal import Journal
from heterps.streaming.portion import Portion, StreamSource
from heterps.streaming.stream_run import StreamPlaces
from heterps.tables.snapshots.disk import remove_tree

__all__ = ["Looking", "first_files"]

_FIRST = f"{0:08d}"  # goes with the first checkpoint
_GLANCE_S = 0.2


@dataclass(frozen=True)
class Looking:
    """Where the stream is to be, how patiently rows are looked for, and whom to tell."""

    out: Path
    backoff: Backoff
    follow: bool
    stop: Callable[[], bool]
    tell: Callable[[str], None]


def first_files(source: StreamSource, looking: Looking) -> tuple[str, ...]:
    """Return the files of the first portion with rows; empty where there is none, or somebody stopped us waiting.

    A portion that a run before had begun with is taken again.
    """
    places = StreamPlaces(looking.out)
    noted, after, asked = Journal(places.journal).after(0), None, 0
    while not looking.stop():
        answer = noted.pop(0) if noted else source.poll(after)
        if isinstance(answer, Portion):
            after = answer.position
            if files := _fetched(source, answer, places.rows / _FIRST):
                return files
        elif looking.follow or answer.expected:
            looking.tell(answer.awaited)
            _sleep(looking.backoff.wait_s(asked), looking.stop)
            asked += 1
        else:
            break
    return ()


def _fetched(source: StreamSource, portion: Portion, folder: Path) -> tuple[str, ...]:
    if folder.exists():
        remove_tree(folder)
    return () if portion.missing else source.fetch(portion, made_folder(folder))


def _sleep(seconds: float, stop: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not stop() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _GLANCE_S))
