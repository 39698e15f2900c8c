"""``heterps plan --play``: what users say of the run that is played."""

from __future__ import annotations

from heterps.errors import PlanError
from heterps.planner import Plan, Request
from heterps.planner.costs.playing import even_splits, play_plan
from heterps.planner.show.job import parse_duration
from heterps.simulator.timed.play import Played

__all__ = ["play_request"]

_KNOWN = ("splits", "batches", "passes", "cuts", "slow")


def play_request(request: Request, plan: Plan, words: tuple[str, ...]) -> Played:
    """Play the plan of a request: so many Splits of so many batches, cuts every so often, one worker so much slower."""
    given = _words(words)
    batches = _count(given, "batches", 40)
    splits = (batches,) * _count(given, "splits", 0) or even_splits(plan, batches)
    return play_plan(
        plan,
        request.costs(plan.batch_size),
        splits=splits,
        passes=_count(given, "passes", 1),
        cut_every_s=parse_duration(given["cuts"]) if "cuts" in given else 0.0,
        slow={0: _factor(given["slow"])} if "slow" in given else None,
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


def _factor(text: str) -> float:
    """How many times as long the first worker that reads takes."""
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not factor >= 1:
        raise PlanError(f"--play-with slow={text}: say how many times as long one worker takes, at least 1")
    return factor
