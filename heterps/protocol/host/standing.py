"""Where a shard host stands, as it tells a driver that knows nothing of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heterps.protocol.host.window import Window

__all__ = ["HostStanding"]


@dataclass(frozen=True)
class HostStanding:
    """What was applied, and in Sync where lanes are.

    Parameters
    ----------
    window
        Keys that were applied.
    lanes
        Of each: pass and step of its frontier, the batch there (None where nobody said), and the step up to which it
        has staged something.
    line
        The return to a cut that it has made last, by number.
    """

    window: Window
    lanes: list[list[Any]]
    line: int = 0
