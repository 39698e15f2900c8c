"""Who is far behind, told from batches and seconds."""

from collections.abc import Iterator
from random import Random
from statistics import median

import pytest
from hypothesis import given, strategies as st

from heterps.runtime.run.paces import Behind, Going, Paces, told_every_s


def going(now: float, **rates: float) -> list[Going]:
    """Return attempts that do so many batches a second, each on a worker of its name."""
    return [Going(name, n, name, int(now * rate), now) for n, (name, rate) in enumerate(rates.items())]


def test_one_that_takes_long_for_a_batch_is_behind_once_that_has_lasted() -> None:
    paces = Paces(after_s=4.0, factor=3.0)
    found = {now: paces.look(now, going(now, a=10, b=9, c=1)) for now in map(float, range(8))}
    assert [now for now, behind in found.items() if behind] == [4.0, 5.0, 6.0, 7.0]
    (behind,) = found[7.0]
    assert (behind.attempt, behind.worker) == (2, "c")
    assert 0.8 < behind.seconds < 1.3
    assert 0.09 < behind.others < 0.12


def test_half_as_fast_is_not_far_behind() -> None:
    paces = Paces(after_s=4.0, factor=3.0)
    assert not any(paces.look(now, going(now, a=10, b=10, c=5)) for now in map(float, range(20)))


def test_one_that_does_nothing_at_all_is_behind_however_long_batches_are() -> None:
    paces = Paces(after_s=1.0, factor=3.0)

    def look(now: float) -> list[Behind]:
        batches = {"a": int(now / 5), "b": int(now / 5), "c": int(min(now, 20.0) / 5)}
        return paces.look(now, [Going(w, n, w, done, now) for n, (w, done) in enumerate(batches.items())])

    found = {now: look(float(now)) for now in range(60)}
    first = next(now for now, behind in found.items() if behind)
    assert 34 <= first <= 37, "three batches of five seconds after its last one"
    assert {behind.worker for all_ in found.values() for behind in all_} == {"c"}


def test_the_last_one_is_compared_with_those_that_have_done() -> None:
    paces = Paces(after_s=2.0, factor=3.0)
    for now in (0.0, 1.0, 2.0):
        paces.look(now, going(now, a=10, b=1))
    assert [behind.worker for behind in paces.look(3.0, going(3.0, b=1))] == ["b"]
    paces.forget("a")
    assert paces.look(4.0, going(4.0, b=1)) == [], "there is nobody to compare it with"


def test_all_that_stand_still_together_are_not_behind_each_other() -> None:
    """As when a shard host does not answer."""
    paces = Paces(after_s=2.0, factor=3.0)
    for now in range(3):
        paces.look(now, going(now, a=10, b=10))
    stalled = [Going(name, n, name, 20, 0.0) for n, name in enumerate("ab")]
    assert not any(paces.look(now, [each._replace(seconds=float(now)) for each in stalled]) for now in range(3, 60))


def test_a_lane_that_waits_for_another_is_not_behind() -> None:
    """In Sync all have done as much; what counts is the time in which the others waited."""
    paces = Paces(after_s=2.0, factor=3.0)

    def lanes(now: float) -> list[Going]:
        return [Going(0, 0, "a", int(now), 0.05 * now), Going(1, 1, "b", int(now), 0.95 * now)]

    found = [paces.look(now, lanes(now)) for now in map(float, range(6))]
    assert [[behind.worker for behind in each] for each in found] == [[], [], ["b"], ["b"], ["b"], ["b"]]


def test_a_short_turn_that_costs_nothing_is_left_alone() -> None:
    """Three times as long as others, but the run spends its time elsewhere."""
    paces = Paces(after_s=2.0, factor=3.0)

    def lanes(now: float) -> list[Going]:
        return [Going(0, 0, "a", int(10 * now), 0.01 * now), Going(1, 1, "b", int(10 * now), 0.1 * now)]

    assert not any(paces.look(now, lanes(now)) for now in map(float, range(6)))


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.01, 10)), st.sampled_from("abcdefgh"))
def test_what_others_take_is_the_median_of_all_but_one(paces_s: dict[str, float], worker: str) -> None:
    paces = Paces(after_s=1.0, factor=3.0)
    paces._usual = dict(paces_s)
    others = [pace for name, pace in paces_s.items() if name != worker]
    assert paces.usual(worker) == (pytest.approx(median(others)) if others else None)
    paces.forget("a")
    paces_s.pop("a", None)
    others = [pace for name, pace in paces_s.items() if name != worker]
    assert paces.usual(worker) == (pytest.approx(median(others)) if others else None), "one is gone"


def test_attempts_say_less_the_more_there_are() -> None:
    assert told_every_s(1) == told_every_s(100) == 1.0
    assert told_every_s(10_000) == 25.0


def test_one_that_may_say_little_is_not_behind_while_it_says_nothing() -> None:
    """A word in ten seconds each, at different moments: the one that does a batch in ten is found all the same."""
    rates = {"a": 10.0, "b": 9.0, "c": 11.0, "d": 1.0}

    def heard(now: float, every_s: float) -> list[Going]:
        words = {name: now - (now + 2 * n) % every_s for n, name in enumerate(rates)}
        return [Going(w, n, w, int(max(words[w], 0.0) * rates[w]), now) for n, w in enumerate(rates)]

    paces = Paces(after_s=4.0, factor=3.0)
    found = [paces.look(now, heard(now, 10.0), 10.0) for now in map(float, range(60))]
    assert {behind.worker for each in found for behind in each} == {"d"}
    assert found[-1][0].seconds == pytest.approx(1.0, rel=0.2)


def units_told(now: float, batch_s: float, merge: int, depth: int) -> int:
    """Return the batches told by now of an attempt whose units in flight are done together: the mode allows it."""
    at_once = merge * depth
    return int(now / (batch_s * at_once)) * at_once


def test_a_word_for_many_merged_batches_leaves_nobody_behind() -> None:
    """Two readers, each a word for 16 batches of 0.6 s, at different moments: 9.6 s of silence is as it should be."""
    paces = Paces(after_s=10.0, factor=3.0)
    found = [
        paces.look(
            now,
            [Going(w, n, w, units_told(now + 4.8 * n, 0.6, merge=8, depth=2), now) for n, w in enumerate("ab")],
            every_s=0.5,
            at_once=16,
        )
        for now in (n / 2 for n in range(400))
    ]
    assert not any(found)
    assert paces.usual("a") == pytest.approx(0.6, rel=0.4), "the edges of a window hide a quarter of it at most"


def told(random: Random, at_once: int, batch_s: float, every_s: float) -> Iterator[int]:
    """Yield what an attempt has told at each half second; a batch takes up to twice as long as the shortest one."""
    ends, said, words = [random.uniform(1, 2) * batch_s], 0, -every_s
    for now in (n / 2 for n in range(400)):
        while ends[-1] <= now:
            ends.append(ends[-1] + random.uniform(1, 2) * batch_s)
        done = len(ends) - 1
        if now - words >= every_s and (done - said >= at_once or random.random() < 0.2):
            said, words = max(said, done - random.randrange(at_once)), now
        yield said


@given(st.integers(0, 2**32), st.integers(1, 20), st.floats(0.05, 3.0))
def test_whatever_is_told_late_nobody_is_behind_who_is_not(seed: int, at_once: int, batch_s: float) -> None:
    paces, random = Paces(after_s=10.0, factor=3.0), Random(seed)
    all_told = zip(*(told(random, at_once, batch_s, every_s=0.5) for _ in "abc"), strict=True)
    for n, batches in enumerate(all_told):
        there = [Going(w, k, w, batches[k], n / 2) for k, w in enumerate("abc")]
        # a word that was just too early for every_s comes with the next look only
        assert not paces.look(n / 2, there, every_s=1.0, at_once=at_once)


@pytest.mark.parametrize(("merge", "depth"), [(1, 2), (8, 2), (4, 1)])
def test_one_that_stops_is_found_after_three_times_what_is_in_flight_takes(merge: int, depth: int) -> None:
    paces, at_once = Paces(after_s=2.0, factor=3.0), merge * depth

    def look(now: float) -> list[Behind]:
        batches = {w: units_told(min(now, 40.0) if w == "c" else now, 0.25, merge, depth) for w in "abc"}
        return paces.look(now, [Going(w, n, w, done, now) for n, (w, done) in enumerate(batches.items())], 0.5, at_once)

    found = {now: look(now) for now in (n / 2 for n in range(240))}
    first = next(now for now, behind in found.items() if behind)
    assert 40.0 < first <= 40.0 + 0.25 * at_once * 3 * 4 / 3 + 2.0, "the edges of others' windows add a third at most"
    assert {behind.worker for each in found.values() for behind in each} == {"c"}


def test_one_that_is_eight_times_as_slow_is_found_however_many_are_told_at_once() -> None:
    paces = Paces(after_s=2.0, factor=3.0)

    def look(now: float) -> list[Behind]:
        each = {w: units_told(now, 0.8 if w == "c" else 0.1, merge=8, depth=2) for w in "abc"}
        return paces.look(now, [Going(w, n, w, done, now) for n, (w, done) in enumerate(each.items())], 0.5, 16)

    found = [behind.worker for now in range(120) for behind in look(float(now))]
    assert set(found) == {"c"}
    assert len(found) > 80, "within some forty seconds: three words for 16 batches each"


def test_while_nobody_looks_nothing_is_learned() -> None:
    """What was done meanwhile took no time that was counted: no others may be held against that."""
    paces = Paces(after_s=2.0, factor=3.0)
    for now in range(10):
        paces.look(now, going(now, a=10, b=10))
    paces.look_away()
    ahead = [Going("a", 0, "a", 1000, 10.0), Going("b", 1, "b", 100, 10.0)]  # a's words were all heard, b's are to come
    for n in range(20):
        now = 10.0 + n
        assert not paces.look(now, [each._replace(batches=each.batches + 10 * n, seconds=now) for each in ahead])
    assert paces.usual("b") == pytest.approx(0.1, rel=0.1)


def with_short_splits(now: float, stuck: float, short: int = 3) -> tuple[list[Going], int]:
    """Return workers that do a Split of two batches a look, one of them until it is stuck, and what all have done."""
    looks, left = int(2 * now), int(2 * min(now, stuck))
    others = [Going((w, looks), 10 * looks + w, f"w{w}", 0, now) for w in range(short)]
    return [Going(left, -1, "stuck", 0, now), *others], 2 * (left + short * looks)


@pytest.mark.parametrize("short", [1, 3])
def test_one_that_stands_still_is_found_though_splits_of_others_are_over_at_once(short: int) -> None:
    paces, found = Paces(after_s=4.0, factor=3.0), {}
    for now in (n / 2 for n in range(60)):
        there, done = with_short_splits(now, 10.0, short)
        found[now] = paces.look(now, there, 0.5, 2, done)
    first = next(now for now, behind in found.items() if behind)
    assert 10.0 < first <= 15.0
    assert {behind.worker for each in found.values() for behind in each} == {"stuck"}
    assert found[29.5][0].others == pytest.approx(0.25, rel=0.4)


def test_nobody_is_behind_where_short_splits_stand_still_together() -> None:
    """As when a shard host does not answer for a while: since the last word of one the others did nothing either."""
    paces, now = Paces(after_s=4.0, factor=3.0), 0.0
    for n in range(100):
        now = n / 2
        there, done = with_short_splits(min(now, 20.0), 20.0)
        assert not paces.look(now, [each._replace(seconds=now) for each in there], 0.5, 2, done)


def test_one_alone_is_not_behind_itself() -> None:
    paces = Paces(after_s=4.0, factor=3.0)
    for n in range(200):
        batches = min(n, 60)
        assert not paces.look(n / 2, [Going(batches // 4, 0, "a", batches % 4, n / 2)], 0.5, 2, batches)
