"""A notice board: what trainings of a cluster have told, as plain values that never grow beyond a bound.

A training tells each report (:func:`news_of`); ``heterps watch`` and the page ``/heterps`` read what
:meth:`Board.state` returns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from heterps.runtime.report.progress import Progress

__all__ = ["Board", "News", "Notice", "news_of", "thinned"]

MOST_RUNS, MOST_POINTS, MOST_EVENTS = 20, 240, 40
State = Literal["training", "done", "left", "failed", "lost"]
News = dict[str, Any]

#: What has to be looked at when it grows: counted in reports, in words here.
_FAULTS = {
    "failed_cuts": "cuts could not be written",
    "bad_losses": "batches had no finite loss",
    "skipped": "rows were skipped, their gradient was not finite",
    "bad_rows": "rows of input could not be used",
    "run_twice": "lanes or Splits were run twice",
    "unprotected": "shard hosts have no backup",
}
_NUMBERS = ("epoch", "epochs", "batches", "samples", "seconds", "samples_per_s", "loss", "staleness", *_FAULTS)


def news_of(progress: Progress) -> News:
    """Return a report as plain values that JSON can say; None stands for what is not a finite number."""
    numbers = {name: _plain(getattr(progress, name)) for name in _NUMBERS}
    return {
        **numbers,
        "line": str(progress),
        "metrics": _single(progress.metrics),
        "valid": _single(progress.valid),
        "busy": _single(progress.busy),
        "queues": dict(progress.queues),
        "tables": [asdict(table) for table in progress.tables],
        "cut": progress.cut,
        "moves": list(progress.moves),
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _single(values: Mapping[str, Any]) -> dict[str, float | None]:
    """Metrics that are one number."""
    return {name: _plain(float(value)) for name, value in values.items() if isinstance(value, float | int)}


def thinned(points: list[Any], most: int) -> list[Any]:
    """Return at most so many points: where there are more, every second one; the newest stays."""
    return points if len(points) <= most else [*points[:-1:2], points[-1]]


@dataclass
class Notice:
    """One training as others see it.

    Parameters
    ----------
    run
        What tells it from all others.
    name
        What its user calls it.
    driver
        The Dask client that it is told by.
    began
        When, in seconds since 1970.
    about
        Of the plan, in lines.
    picture
        The plan as an SVG.
    """

    run: str
    name: str
    driver: str
    began: float
    about: list[str] = field(default_factory=list)
    picture: str = ""
    state: State = field(default="training", init=False)
    words: str = field(default="", init=False)
    heard: float = field(default=0.0, init=False)
    reports: int = field(default=0, init=False)
    latest: News = field(default_factory=dict, init=False)
    points: list[News] = field(default_factory=list, init=False)
    events: list[News] = field(default_factory=list, init=False)

    def take(self, news: News, at: float) -> None:
        """Note a report."""
        self.events = [*self.events, *self._events(news, at)][-MOST_EVENTS:]
        point = {name: news[name] for name in ("samples", "samples_per_s", "loss", "metrics", "valid")}
        self.points = thinned([*self.points, {"at": at, **point}], MOST_POINTS)
        self.latest, self.heard, self.reports = news, at, self.reports + 1

    def _events(self, news: News, at: float) -> Iterator[News]:
        """What happened since the report before, in words."""
        for words in news["moves"]:
            yield {"at": at, "kind": "move", "words": words}
        if news["cut"] and news["cut"] != self.latest.get("cut"):
            yield {"at": at, "kind": "cut", "words": news["cut"]}
        for name, words in _FAULTS.items():
            if (more := news[name] - self.latest.get(name, 0)) > 0:
                yield {"at": at, "kind": "fault", "words": f"{more:,} {words}"}

    def end(self, state: State, words: str, at: float) -> None:
        """Note that training is over, and why."""
        self.state, self.words, self.heard = state, words, at
        if state in ("failed", "lost"):
            self.events = [*self.events, {"at": at, "kind": "fault", "words": words}][-MOST_EVENTS:]

    def to_json(self) -> News:
        """Return plain values; the picture has an address of its own."""
        named = ("run", "name", "began", "about", "state", "words", "heard", "reports", "latest", "points", "events")
        return {**{name: getattr(self, name) for name in named}, "drawn": bool(self.picture)}


class Board:
    """The notices of a cluster, the newest first; the oldest go, those of trainings that are over before others."""

    def __init__(self) -> None:
        self._notices: dict[str, Notice] = {}

    def begin(self, notice: Notice) -> None:
        """A training begins. One that its session made before goes on: its curve is that of the session."""
        before = self._notices.pop(notice.run, None)
        if before is not None:
            notice.began, notice.points, notice.events = before.began, before.points, before.events
            notice.reports = before.reports
        self._notices[notice.run] = notice
        notice.heard = notice.heard or notice.began
        while len(self._notices) > MOST_RUNS:
            over = next((run for run, each in self._notices.items() if each.state != "training"), None)
            del self._notices[over or next(iter(self._notices))]

    def take(self, run: str, news: News, at: float) -> None:
        """Note a report of a training; of one that is not here any more nothing is kept."""
        if run in self._notices:
            self._notices[run].take(news, at)

    def end(self, run: str, state: State, words: str, at: float) -> None:
        """Note that a training is over."""
        if run in self._notices:
            self._notices[run].end(state, words, at)

    def lose(self, driver: str, at: float) -> None:
        """A client is gone: what it trained goes on no more."""
        for notice in self._notices.values():
            if notice.driver == driver and notice.state == "training":
                notice.end("lost", "its driver is gone; launch(resume=...) goes on from the last cut", at)

    def picture(self, run: str) -> str:
        """Return the drawn plan of a training; empty where there is none."""
        return self._notices[run].picture if run in self._notices else ""

    def state(self, now: float) -> News:
        """Return everything, as JSON can say it."""
        return {"now": now, "runs": [notice.to_json() for notice in reversed(self._notices.values())]}
