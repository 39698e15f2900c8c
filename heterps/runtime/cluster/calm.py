"""What scheduler and workers do all the time to watch themselves, done less often: it takes cores from training."""

from __future__ import annotations

from typing import Any

from heterps.runtime.config import settings

__all__ = ["calm_beats", "calm_down"]

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
# Up to ten workers say twice a second that they live, with all that they have measured: two milliseconds there, one at
# the scheduler. From fifty workers on Dask itself wants to hear of each as seldom as this.
_BEAT_S = 2.0
_BEATS = 8  # that have to fail, at least, before a worker is given up for its silence
_BEAT = "heartbeat_worker"


def calm_down(server: Any) -> None:
    """Let a scheduler or worker that has not begun yet look at itself as seldom as an in-process cluster's do."""
    callbacks = server.periodic_callbacks
    for name in _NOT_AT_ALL:
        callbacks.pop(name, None)
    for name, least in _EVERY_MS.items():
        if name in callbacks:
            callbacks[name].callback_time = max(callbacks[name].callback_time, least)
    if _BEAT in server.handlers:  # of a scheduler
        calm_beats(server)


def calm_beats(scheduler: Any) -> None:
    """Let a scheduler hear of its workers less often; it says in its answers when it wants to hear again."""
    answer, least = scheduler.handlers[_BEAT], min(_BEAT_S, settings().call_s / _BEATS)

    def heartbeat_worker(**told: Any) -> dict[str, Any]:
        words, name = dict(answer(**told)), "heartbeat-interval"
        if name in words:  # not for one that the scheduler does not know any more
            words[name] = max(words[name], least)
        return words

    scheduler.handlers[_BEAT] = heartbeat_worker
