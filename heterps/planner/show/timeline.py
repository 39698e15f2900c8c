"""The pipeline over time: which unit works on which batch when, played through with the forecast's times."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from heterps.planner.plan import Plan

__all__ = ["Bar", "play", "steady_rate", "timeline"]

_FORWARD_SHARE = 1 / 3  # a backward pass takes about two forward passes


@dataclass(frozen=True)
class Bar:
    """Work of one unit on one batch."""

    stage: int
    unit: int
    batch: int
    backward: bool
    is_last: bool
    start_s: float
    stop_s: float


def timeline(plan: Plan, batches: int) -> list[Bar]:
    """Play batches through the stages: forward down the pipeline, both directions at the end, backward up again.

    A unit works on one thing at a time and takes backward work first, which frees what waits behind it. As many batches
    are under way as lanes and depth allow.
    """
    if plan.forecast is None:
        return []
    times = [max(stage.cost.compute_s, stage.cost.data_s) for stage in plan.forecast.stages]
    units = [sum(stage.workers.values()) for stage in plan.stages]
    return play(times, units, batches, plan.lanes * plan.depth)


def steady_rate(times: list[float], units: list[int], in_flight: int) -> float:
    """Batches per second once the pipeline is full, with so many under way."""
    batches = 4 * in_flight + 4 * sum(units)
    bars = play(times, units, batches, in_flight)
    first = len(times) > 1  # the first stage ends a batch going back; a single stage ends it at once
    ends = sorted(bar.stop_s for bar in bars if bar.stage == 0 and bar.backward == first)
    low, high = len(ends) // 3, 2 * len(ends) // 3
    return (high - low) / (ends[high] - ends[low]) if ends[high] > ends[low] else float("inf")


def play(times: list[float], units: list[int], batches: int, in_flight: int) -> list[Bar]:
    """Play batches through stages of given seconds per batch and numbers of units."""
    last = len(times) - 1
    free = [list(range(n)) for n in units]
    waiting: list[list[tuple[int, int, bool]]] = [[] for _ in times]  # (order: backward first, batch, backward)
    running: list[tuple[float, int, int, int, bool]] = []  # (stop, stage, unit, batch, backward)
    bars: list[Bar] = []
    started, now = 0, 0.0

    def offer(stage: int, batch: int, backward: bool) -> None:
        heapq.heappush(waiting[stage], (0 if backward else 1, batch, backward))

    def begin() -> None:
        for stage, queue in enumerate(waiting):
            while queue and free[stage]:
                _, batch, backward = heapq.heappop(queue)
                unit = heapq.heappop(free[stage])
                share = 1.0 if stage == last else 1 - _FORWARD_SHARE if backward else _FORWARD_SHARE
                stop = now + times[stage] * share
                heapq.heappush(running, (stop, stage, unit, batch, backward))
                bars.append(Bar(stage, unit, batch, backward, stage == last, now, stop))

    while started < min(batches, in_flight):
        offer(0, started, False)
        started += 1
    begin()
    while running:
        now, stage, unit, batch, backward = heapq.heappop(running)
        heapq.heappush(free[stage], unit)
        going_back = backward or stage == last
        if going_back and stage > 0:
            offer(stage - 1, batch, True)
        elif not going_back:
            offer(stage + 1, batch, False)
        elif started < batches:
            offer(0, started, False)
            started += 1
        begin()
    return bars
