"""Which words of the protocol a hunt has met: one that an engine uses and no seed plays is not tested at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from heterps.protocol.words import decisions as de, events as ev, instructions as do

__all__ = ["UNPLAYED", "never_met", "words_of_engines"]

_MOVES = {
    "MoveAsked": "no engine moves single shards: whole hosts go over",
    "ShardsCopied": "as MoveAsked",
    "MoveShards": "as MoveAsked",
    "Own": "as MoveAsked",
    "Insert": "as MoveAsked",
    "Retain": "as MoveAsked",
}
_ENDS = {
    "AbortAsked": "ends the run at once, whatever it was doing",
    "Diverged": "as AbortAsked",
    "Abort": "as AbortAsked",
}
UNPLAYED = {**_MOVES, **_ENDS}
"""Words that a hunt need not meet, with the reason; they may be played all the same."""


def words_of_engines(everything: bool = False) -> set[str]:
    """Return the events, instructions and decisions that engines raise and carry out; or all but those that end a
    run.
    """
    events = {name for name in ev.__all__ if name not in ("Event", "Role")}
    instructions = {name for name in do.__all__ if name != "Instruction"}
    decisions = {kind.__name__ for kind in get_args(de.Decision)}
    return (events | instructions | decisions) - set(_ENDS if everything else UNPLAYED)


def never_met(met: Mapping[str, int], everything: bool = False) -> list[str]:
    """Return the words of engines, or all, that were not met."""
    return sorted(word for word in words_of_engines(everything) if not met.get(word))
