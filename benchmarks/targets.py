"""What the project wants of each ratio, and what the last runs say about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.figures import FREE_ENOUGH, Row, best_torch, ratios, row_of, taken
from benchmarks.systems import LIMIT, OURS, TCP, Case

MOST_AUC_APART = 0.002
FEWEST_ROUNDS = 3  # below that a ratio is an impression


@dataclass(frozen=True)
class Verdict:
    """One target in one case."""

    target: str
    case: str
    wanted: str
    figure: str
    per_core: str
    reached: bool
    taken: float = 0.0
    rounds: int = FEWEST_ROUNDS

    @property
    def said(self) -> str:
        """Reached or not; nothing where the machine was not free or there were too few rounds."""
        if self.rounds < FEWEST_ROUNDS:
            return f"not judged: {self.rounds} round"
        if self.taken > FREE_ENOUGH:
            return f"not judged: {self.taken:.1f} cores were taken"
        return "reached" if self.reached else "**not reached**"


def verdicts(result: dict[str, Any]) -> list[Verdict]:
    """Every target that the runs so far can speak about."""
    found = [v for measured in result["cases"].values() for v in _of_case(measured)]
    return found + [v for scores in result["quality"].values() for v in _of_quality(scores)]


def _of_case(measured: dict[str, Any]) -> Iterator[Verdict]:
    case, rows = Case(**measured["case"]), measured["rows"]
    ours, tcp, torch = row_of(rows, OURS), row_of(rows, TCP), best_torch(rows)
    if ours is None:
        return
    pairs = [(ours, row_of(rows, name), wanted) for name, wanted in _wanted(case).items()]
    pairs += [(tcp, row_of(rows, f"Paddle {kind}"), 2.0) for kind in ("async", "geo")]
    if case.rule == "sgd" and torch is not None and case.model != "sparse_heavy":
        pairs.insert(0, (ours, torch, 1.25))
    for mine, theirs, wanted in pairs:
        if mine is not None and theirs is not None:
            yield _ratio(case, mine, theirs, wanted, best=theirs is torch)
    if plain := row_of(rows, "PyTorch"):
        yield _memory(case, ours, plain)


def _wanted(case: Case) -> dict[str, float]:
    """The least ratio ours / theirs in samples per second, by system."""
    if case.source != "memory":
        return {}
    if case.model == "sparse_heavy":
        return {"PyTorch": 2.0, "FBGEMM": 2.0, "TFRA": 2.0, "Paddle async": 4.0}
    fused = 1.25 if case.rule == "sgd" else 2.0
    return {LIMIT: 0.9, "FBGEMM": fused, "TFRA": 1.7, "Paddle async": 3.0, "Paddle geo": 3.0}


def _ratio(case: Case, mine: Row, theirs: Row, wanted: float, *, best: bool) -> Verdict:
    found, per_core = ratios(mine, theirs), ratios(mine, theirs, per_core=True)
    name = f"{theirs['name']} (the best PyTorch)" if best else theirs["name"]
    figure = f"{median(found):.2f} ({min(found):.2f}-{max(found):.2f})"
    return Verdict(
        f"{mine['name']} / {name}",
        case.title,
        f"at least {wanted:g}",
        figure,
        f"{median(per_core):.2f}",
        median(found) >= wanted,
        max(taken(mine), taken(theirs)),
        len(found),
    )


def _memory(case: Case, ours: Row, torch: Row) -> Verdict:
    mine, theirs = (row["peak_bytes"] / 1e6 for row in (ours, torch))
    figure = f"{mine:,.0f} MB of {theirs:,.0f} MB"
    rounds = len(ours["windows"])  # memory settles after a few windows
    return Verdict("peak memory / PyTorch", case.title, "at most 1", figure, "", mine <= theirs, rounds=rounds)


def _of_quality(measured: dict[str, Any]) -> Iterator[Verdict]:
    scores = {name: sum(found) / len(found) for name, found in measured["auc"].items() if found}
    if OURS in scores and "PyTorch" in scores:
        apart = scores[OURS] - scores["PyTorch"]
        figure = f"{scores[OURS]:.4f} - {scores['PyTorch']:.4f} = {apart:+.4f}"
        wanted = f"within {MOST_AUC_APART:g}"
        yield Verdict("AUC - PyTorch's AUC", measured["title"], wanted, figure, "", abs(apart) <= MOST_AUC_APART)
