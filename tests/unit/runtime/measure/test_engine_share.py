"""What the engine takes while it waits is not what it takes while it starts."""

import itertools

import pytest

from heterps.runtime.measure import engine_share


@pytest.mark.parametrize(
    ("shares", "idle"),
    [([0.05, 0.05], 0.05), ([1.6, 1.2, 0.7, 0.06, 0.05], 0.05), ([0.04, 0.3], 0.04)],
    ids=["calm", "still compiling", "busy for a moment"],
)
def test_a_cluster_that_still_starts_is_measured_again(shares, idle, monkeypatch):
    now, cpu, left = itertools.count(), [0.0], iter(shares)

    def sleep(seconds):
        cpu[0] += next(left)  # of the one second that passes between two looks at the clock

    monkeypatch.setattr(engine_share.time, "sleep", sleep)
    monkeypatch.setattr(engine_share.time, "perf_counter", lambda: float(next(now)))
    assert engine_share._idle(lambda: cpu[0]) == pytest.approx(idle)
    assert next(left, None) is None
