"""The figures of a soak: how long nothing was applied, and what a log of soaks adds up to."""

from pathlib import Path

import pytest

from heterps.soak.tally import Tally, longest_stop, quantile, totals


@pytest.mark.parametrize(
    ("since", "until", "stop"),
    [(0.0, 10.0, 4.0), (0.0, 1.5, 1.0), (2.5, 3.0, 4.0), (7.5, 9.0, 2.0), (20.0, 30.0, 0.0)],
)
def test_a_stop_is_the_longest_time_without_a_batch_that_touches_the_stretch(
    since: float, until: float, stop: float
) -> None:
    applied = [(0.0, 0), (1.0, 10), (2.0, 20), (3.0, 20), (6.0, 30), (7.0, 40), (9.0, 40)]
    assert longest_stop(applied, since, until) == stop


def test_quantiles_are_values_that_occurred() -> None:
    values = [5.0, 1.0, 3.0, 2.0]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([7.0], 0.99)) == (3.0, 5.0, 7.0)


def test_a_log_adds_up(tmp_path: Path) -> None:
    log = tmp_path / "soak.jsonl"
    for inexact in (0, 1):
        tally = Tally(rounds=3, inexact=inexact)
        tally.add("kill server", 0.5)
        tally.add("kill server", 0.7)
        tally.add("slow io", 2.0)
        tally.append_to(log, mode="sync")
    assert tally.rows() == [("kill server", "2", "0.70", "0.70", "0.70"), ("slow io", "1", "2.00", "2.00", "2.00")]
    assert totals(log) == (4, 6, 1), "slowing is no kill"
