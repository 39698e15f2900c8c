"""``heterps plan --play``: what users say of the run that is played."""

from __future__ import annotations

import math
from dataclasses import dataclass

from heterps.errors import PlanError
from heterps.planner import Plan, Request
from heterps.planner.costs.playing import even_splits, play_plan
from heterps.planner.show.job import parse_duration
from heterps.simulator.timed.play import Played

__all__ = ["RunWords", "parse_run", "play_request"]

_KNOWN = ("splits", "batches", "passes", "cuts", "slow")
_MOST = 100_000  # batches: a minute or so


@dataclass(frozen=True)
class RunWords:
    """So many Splits (0: as many as suit the plan) of so many batches, passes, cuts every so often, who is slower."""

    splits: int
    batches: int
    passes: int
    cut_every_s: float
    slow: dict[int, float] | None


def parse_run(words: tuple[str, ...]) -> RunWords:
    """Read what was said with ``--play-with``, before anything is planned."""
    given = _words(words)
    return RunWords(
        _count(given, "splits", 0),
        _count(given, "batches", 40),
        _count(given, "passes", 1),
        _time(given["cuts"]) if "cuts" in given else 0.0,
        {0: _factor(given["slow"])} if "slow" in given else None,
    )


def play_request(request: Request, plan: Plan, run: RunWords) -> Played:
    """Play the plan of a request.

    Raises
    ------
    PlanError
        If there are so many batches that nobody would wait for them.
    """
    count = run.passes * (run.batches * run.splits or sum(even_splits(plan, run.batches)))
    if count > _MOST:
        raise PlanError(
            f"--play-with: {count:,} batches are too many to be played, some two thousand take a second; say at most "
            f"{_MOST:,} (batches in a Split, times splits, times passes)"
        )
    return play_plan(
        plan,
        request.costs(plan.batch_size),
        splits=(run.batches,) * run.splits or even_splits(plan, run.batches),
        passes=run.passes,
        cut_every_s=run.cut_every_s,
        slow=run.slow,
        sample=request.sample,
    )


def _words(words: tuple[str, ...]) -> dict[str, str]:
    given = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or name not in _KNOWN:
            raise PlanError(f"--play-with {word!r}: use NAME=VALUE with one of {', '.join(_KNOWN)}")
        given[name] = value
    return given


def _count(given: dict[str, str], name: str, default: int) -> int:
    if name not in given:
        return default
    if not given[name].isdecimal() or not int(given[name]):
        raise PlanError(f"--play-with {name}={given[name]}: use a whole number above 0")
    return int(given[name])


def _time(text: str) -> float:
    """How long it is from one cut to the next."""
    try:
        return parse_duration(text)
    except PlanError as error:
        raise PlanError(f"--play-with cuts={text}: {error}") from None


def _factor(text: str) -> float:
    """How many times as long the first worker that reads takes."""
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 <= factor < math.inf:
        raise PlanError(f"--play-with slow={text}: say how many times as long one worker takes, at least 1")
    return factor
