import json

import pytest
from hypothesis import given, strategies as st

from heterps.errors import PlanError, UnknownKindError
from heterps.protocol import Async, Cached, Geo, Mixed, MixedSync, Mode, Sync, mode_from_json

modes = st.one_of(
    st.just(Sync()),
    st.builds(Async, depth=st.integers(1, 9), merge=st.integers(1, 9)),
    st.builds(Geo, k=st.integers(1, 999)),
)


@given(modes)
def test_modes_survive_json(mode: Mode) -> None:
    assert mode_from_json(json.loads(json.dumps(mode.to_json()))) == mode


@pytest.mark.parametrize("make", [lambda: Async(depth=0), lambda: Async(merge=0), lambda: Geo(k=0)])
def test_nonsense_is_refused_by_name(make: object) -> None:
    with pytest.raises(PlanError, match=r"mode: [a-z]+ is 0, expected a whole number of at least 1"):
        make()  # type: ignore[operator]


def test_unknown_modes_are_named() -> None:
    with pytest.raises(UnknownKindError, match=r'"half".*async, cache, geo, sync'):
        mode_from_json({"mode": "half"})


def test_pulls_may_overtake_pushes_only_where_no_answer_counts_on_their_order() -> None:
    assert [mode.any_order for mode in (Async(), Async(merge=2))] == [True, True]
    assert not any(mode.any_order for mode in (Sync(), Geo(), Cached(), Cached(0), Mixed(), MixedSync()))


@pytest.mark.parametrize(
    ("mode", "told", "owed"),
    [
        (Sync(), 1, 1),
        (Async(), 2, 2),
        (Async(depth=3, merge=8), 24, 24),
        (Geo(k=7), 14, 14),
        (Cached(staleness=16), 16, 16),
        (Mixed(k=100, depth=4), 4, 103),
        (MixedSync(k=10), 1, 10),
    ],
)
def test_what_may_go_untold_and_what_is_owed_before_a_stop(mode: Mode, told: int, owed: int) -> None:
    assert (mode.told_at_once, mode.owed) == (told, owed)
