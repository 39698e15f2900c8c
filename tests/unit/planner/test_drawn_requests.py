"""Plans for drawn requests are played, whole and in their own mode, as fast as they say that they are."""

import pytest

from heterps.errors import PlanError
from heterps.planner.costs.playing import play_plan
from heterps.planner.show.shortfall import shortfall_texts
from tests.unit.planner.drawn_requests import drawn_request

_MOST = 20_000  # messages or so: a plan that takes longer to be played is left out


def difference(seed):
    """What a plan says of itself that is not so when it is played; nothing if all of it is, None without a plan."""
    drawn = drawn_request(seed)
    try:
        made = drawn.plan()
    except PlanError as error:
        return str(error) if "contradicts itself" in str(error) else None
    each = 4 if made.stages[0].also and not made.mode.ordered else 1
    splits = (4 * made.depth + 12,) * (each * made.lanes)
    if made.forecast.played is None or sum(splits) * (made.shard_hosts + 2) > _MOST:
        return None
    played = play_plan(made, drawn.request.costs(made.batch_size), splits=splits).rows_per_second
    return _said_wrong(made, played)


def _said_wrong(made, played):
    part, said = played / made.forecast.rows_per_second, made.forecast.played / made.forecast.rows_per_second
    if part < 0.8 and not shortfall_texts(made):
        return f"played at {part:.2f} of the forecast without a word ({said:.2f})"
    if played > 1.2 * could_do(made) and not made.mode.adds and not made.pool(made.shard_pool).host:
        return f"played at {part:.2f} of the forecast"
    if shortfall_texts(made) and not 0.8 < said / part < 1.25:
        return f"says {said:.2f} of the forecast, played at {part:.2f}"
    return ""


def could_do(made):
    """Rows per second of what is slowest, whatever was asked for."""
    hosts = made.forecast.rows_per_second / max(made.forecast.shard_busy, 1e-9)
    return min(hosts, *(stage.rows_per_second for stage in made.forecast.stages))


def check(seeds):
    found = {seed: difference(seed) for seed in seeds}
    assert not {seed: what for seed, what in found.items() if what}
    assert sum(what == "" for what in found.values()) > len(seeds) / 2


def test_drawn_plans_are_played_as_fast_as_they_say():
    check(range(24))


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_many_drawn_plans_are_played_as_fast_as_they_say():
    check(range(24, 600))
