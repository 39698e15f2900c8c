"""Batches are shared by how fast stage workers were found to be."""

import heapq

import pytest

from heterps.protocol.client.credits import Credits


def played(
    paces: dict[str, float], in_flight: int, batches: int, *, measure: bool = True
) -> tuple[float, dict[str, int], float]:
    """Have workers of fixed speed compute batches; return when all were done, who did how many, the longest wait."""
    credits, now, free = Credits(), 0.0, dict.fromkeys(paces, 0.0)
    under_way: list[tuple[float, str, float, int]] = []
    shares, longest = dict.fromkeys(paces, 0), 0.0
    for _ in range(batches):
        if len(under_way) == in_flight:
            now, stage, began, there = heapq.heappop(under_way)
            if measure:
                credits.measured(stage, (now - began) / there)
            credits.give_back(stage)
        stage = credits.take(list(paces))
        shares[stage] += 1
        free[stage] = max(free[stage], now) + paces[stage]
        if sum(shares.values()) > 50:  # speeds are known by then
            longest = max(longest, free[stage] - now)
        heapq.heappush(under_way, (free[stage], stage, now, credits.waiting[stage]))
    return max(free.values()), shares, longest


@pytest.mark.parametrize("in_flight", [2, 3, 6])
def test_who_is_three_times_as_fast_does_three_times_as_much(in_flight: int) -> None:
    took, shares, _ = played({"p40": 3.0, "v100": 1.0}, in_flight, 400)
    assert shares["v100"] >= 0.7 * 400
    assert took <= 330  # 300 if nobody ever waited


def test_no_batch_waits_long_behind_a_slow_one() -> None:
    paces = {"p40": 3.0, "v100": 1.0}
    longest = [played(paces, 8, 400, measure=measure)[2] for measure in (True, False)]
    assert longest[0] <= 8
    assert longest[1] >= 12  # queues of equal length are not equally long


def test_chance_leaves_no_equal_worker_idle() -> None:
    credits = Credits()
    for stage, seconds in (("a", 1.0), ("b", 5.0)):
        credits.measured(stage, seconds)
    taken = []
    for _ in range(10):
        taken.append(credits.take(["a", "b"]))
        credits.give_back(taken[-1])
    assert taken.count("b") == 5


def test_equal_ones_share_equally() -> None:
    assert played({"a": 1.0, "b": 1.0, "c": 1.0}, 3, 300)[1] == {"a": 100, "b": 100, "c": 100}
