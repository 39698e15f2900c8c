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


def test_a_chance_measurement_leaves_no_equal_worker_idle_for_long() -> None:
    credits = Credits()
    for stage, seconds in (("a", 1.0), ("b", 5.0)):
        credits.measured(stage, seconds)
    taken = []
    for _ in range(200):
        taken.append(credits.take(["a", "b"]))
        credits.measured(taken[-1], 1.0)
        credits.give_back(taken[-1])
    assert taken[:10].count("b") >= 2
    assert taken[-20:].count("b") in (9, 10, 11)


def test_equal_ones_share_equally() -> None:
    assert played({"a": 1.0, "b": 1.0, "c": 1.0}, 3, 300)[1] == {"a": 100, "b": 100, "c": 100}


@pytest.mark.parametrize(("fast", "slow", "times"), [(4, 8, 4), (2, 8, 8), (8, 2, 4), (2, 2, 4)])
def test_many_slow_ones_get_no_more_than_their_part(fast: int, slow: int, times: int) -> None:
    paces = dict.fromkeys((f"v100-{i}" for i in range(fast)), 1.0)
    paces |= dict.fromkeys((f"p40-{i}" for i in range(slow)), float(times))
    took, _, _ = played(paces, 2 * (fast + slow), 2000)
    assert took <= 2000 / (fast + slow / times) / 0.85


def test_many_senders_with_few_batches_each_share_by_speed() -> None:
    """Each sees most stage workers idle, whatever the others have there."""
    paces = dict.fromkeys(("v100-0", "v100-1"), 1.0) | dict.fromkeys((f"p40-{i}" for i in range(4)), 4.0)
    assert rate_of_senders(paces, senders=6, in_flight=2, batches=3000) >= 0.85 * (2 + 4 / 4)


def rate_of_senders(paces: dict[str, float], senders: int, in_flight: int, batches: int) -> float:
    """Batches a second of senders that share workers of fixed speed, each with so many batches under way."""
    credits = [Credits(number) for number in range(senders)]
    free = dict.fromkeys(paces, 0.0)
    under_way: list[tuple[float, int, str, float, int]] = []

    def send(number: int, now: float) -> None:
        stage = credits[number].take(list(paces))
        free[stage] = max(free[stage], now) + paces[stage]
        heapq.heappush(under_way, (free[stage], number, stage, now, credits[number].waiting[stage]))

    for number in range(senders):
        for _ in range(in_flight):
            send(number, 0.0)
    now = 0.0
    for _ in range(batches):
        now, number, stage, began, there = heapq.heappop(under_way)
        credits[number].measured(stage, (now - began) / there)
        credits[number].give_back(stage)
        send(number, now)
    return batches / now


def test_who_comes_back_is_not_given_all_that_was_missed() -> None:
    credits = Credits()
    for _ in range(100):
        credits.give_back(credits.take(["a", "b"]))
    taken = []
    for _ in range(9):
        taken.append(credits.take(["a", "b", "c"]))
        credits.give_back(taken[-1])
    assert sorted(map(taken.count, "abc")) == [3, 3, 3]
