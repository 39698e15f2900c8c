"""What scheduler and workers do all the time to watch themselves, done less often: it takes cores from training."""

from __future__ import annotations

from typing import Any

__all__ = ["calm_down"]

# Dask looks a hundred times a second what its tasks' threads do, and fifty times whether its loop is on time. A task of
# ours is a Split, its phases are measured by ourselves (``session.profile``), and each look takes the GIL from it.
_NOT_AT_ALL = ("profile", "profile-cycle")
# A worker looks ten times a second how much memory it has, a scheduler four times whether it is needed; beside batches
# that fill the caches a look takes a millisecond.
_EVERY_MS = {
    "tick": 500.0,
    "monitor": 2000.0,
    "memory_monitor": 500.0,
    "idle-timeout": 2000.0,
    "no-workers-timeout": 2000.0,
}


def calm_down(server: Any) -> None:
    """Let a scheduler or worker that has not begun yet look at itself as seldom as an in-process cluster's do."""
    callbacks = server.periodic_callbacks
    for name in _NOT_AT_ALL:
        callbacks.pop(name, None)
    for name, least in _EVERY_MS.items():
        if name in callbacks:
            callbacks[name].callback_time = max(callbacks[name].callback_time, least)
