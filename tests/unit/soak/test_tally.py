"""The figures of a soak: how long nothing was applied, what was lost, and what a log of soaks adds up to."""

from pathlib import Path

import pytest

from heterps.soak.tally import Hit, Tally, longest_stop, quantile, share_lost, totals


@pytest.mark.parametrize(
    ("since", "until", "stop"),
    [(0.0, 10.0, 4.0), (0.0, 1.5, 1.0), (2.5, 3.0, 4.0), (6.0, 6.5, 1.0), (7.5, 9.0, 2.0), (20.0, 30.0, 0.0)],
)
def test_a_stop_is_the_longest_time_without_a_batch_that_touches_the_stretch(
    since: float, until: float, stop: float
) -> None:
    applied = [(0.0, 0), (1.0, 10), (2.0, 20), (3.0, 20), (6.0, 30), (7.0, 40), (9.0, 40)]
    assert longest_stop(applied, since, until) == stop


def test_what_is_applied_again_after_a_return_to_a_cut_is_not_new() -> None:
    applied = [(0.0, 0), (1.0, 10), (2.0, 5), (3.0, 8), (4.0, 12), (5.0, 14)]
    assert longest_stop(applied, 1.0, 5.0) == 3.0


def test_throughput_after_a_moment_is_held_against_that_before() -> None:
    steady = [(float(n), 10 * n) for n in range(20)]
    halved = [(now, count if now <= 10 else 100 + (count - 100) // 2) for now, count in steady]
    assert share_lost(steady, 10.0) == 0.0
    assert share_lost(halved, 10.0) == 0.5
    assert share_lost(steady[:1], 0.0) == 0.0


def test_quantiles_are_values_that_occurred() -> None:
    values = [5.0, 1.0, 3.0, 2.0]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([7.0], 0.99)) == (3.0, 5.0, 7.0)


def test_a_log_adds_up(tmp_path: Path) -> None:
    log = tmp_path / "soak.jsonl"
    for exact in (True, False):
        tally = Tally()
        tally.end_round([("kill server", Hit(0.5, 0.1)), ("kill server", Hit(0.7, 0.3))], exact)
        tally.end_round([("slow io", Hit(2.0, 0.5))], True)
        tally.append_to(log, mode="sync" if exact else "async")
    assert list(tally.rows()) == [
        ("kill server", "2", "0", "0.70", "0.70", "0.70", "30 %"),
        ("slow io", "1", "1", "2.00", "2.00", "2.00", "50 %"),
    ]
    assert (totals(log).kills, totals(log).rounds, totals(log).inexact) == (4, 4, 1), "slowing is no kill"
    assert (totals(log, mode="sync").kills, totals(log, mode="sync").inexact) == (2, 0)
    assert totals(log, mode="geo").rounds == 0
