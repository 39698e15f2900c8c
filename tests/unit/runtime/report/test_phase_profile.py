"""Profiles as values and as pictures; what engines put into them is in the engine contract."""

from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from heterps.runtime.batch.phases import PHASES, WAITING, Phases
from heterps.runtime.report.meter import _Passes
from heterps.runtime.report.phase_profile import PhaseProfile
from heterps.runtime.report.profile_drawing import LEFT, RIGHT, WIDTH, draw
from heterps.runtime.report.progress import Progress

SECONDS = st.floats(0, 1e6)
POOLS = st.dictionaries(
    st.sampled_from(["io", "server", "gpu & co"]), st.dictionaries(st.sampled_from(PHASES), SECONDS)
)


@st.composite
def profiles(draw: st.DrawFn) -> PhaseProfile:
    pools = draw(POOLS)
    return PhaseProfile(draw(SECONDS), pools, {pool: draw(SECONDS) for pool in pools})


@given(profiles(), profiles())
def test_taking_away_undoes_adding(a: PhaseProfile, b: PhaseProfile) -> None:
    back = a + b - b
    assert back.elapsed_s == pytest.approx(a.elapsed_s, abs=1e-6)
    assert back.phases == pytest.approx(a.phases, abs=1e-6)
    assert {pool: back.capacity_s[pool] for pool in a.pools} == pytest.approx(a.capacity_s, abs=1e-6)


@given(profiles())
def test_a_picture_has_every_pool_and_phase_and_stays_in_its_frame(profile: PhaseProfile) -> None:
    root = ElementTree.fromstring(draw(profile, "a < b"))
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"a < b", *profile.pools, *(phase for phase, seconds in profile.phases.items() if seconds)} <= texts
    right = max(float(r.get("x", 0)) + float(r.get("width", 0)) for r in root.iter("{http://www.w3.org/2000/svg}rect"))
    assert right <= WIDTH
    bars = [g[1] for g in root.iter("{http://www.w3.org/2000/svg}g")]
    assert all(LEFT <= float(b.get("x", 0)) <= WIDTH - RIGHT + 0.1 for b in bars)


def test_busy_is_what_is_not_waiting_of_the_time_the_threads_had() -> None:
    profile = PhaseProfile(
        2.0, {"io": {"read": 1.0, WAITING: 0.5}, "server": {"rule": 9.0}}, {"io": 4.0, "server": 2.0}
    )
    assert profile.busy == {"io": 0.25, "server": 1.0}
    assert [line.split() for line in str(profile).splitlines()] == [
        ["phase", "io", "server"], ["read", "1.00", "0.00"], ["rule", "0.00", "9.00"], ["waiting", "0.50", "0.00"],
        ["busy", "25", "%", "100", "%"],
    ]  # fmt: skip


def test_parts_of_a_phase_are_not_counted_twice() -> None:
    phases = Phases()
    with phases("forward"):
        pass
    phases.add("forward", 3.0)
    phases.carve({"gather": 1.0})
    seconds = phases.take()
    assert seconds["gather"] == 1.0
    assert 2.0 <= seconds["forward"] < 2.5
    assert not any(phases.take().values())


def test_a_bar_is_full_at_the_end_and_knows_its_length_after_a_pass() -> None:
    passes = _Passes()
    reports = [(1, 500, False), (2, 1100, False), (2, 1900, False), (3, 2100, False), (3, 3000, True)]
    totals = [passes.total(Progress(epoch, 3, 0, n, 1.0, 1.0, 0.5, done=done)) for epoch, n, done in reports]
    assert totals == [None, 3300, 3300, 3150, 3000]


def test_what_is_not_measured_yet_is_not_shown() -> None:
    shown = str(Progress(2, 3, 1, 64, 1.0, 64.0, 0.5, metrics={"auc": float("nan"), "rmse": 0.25}, staleness=1.25))
    assert shown == "epoch 2/3 | 64 samples | 64/s | loss 0.5000 | rmse 0.2500 | staleness 1.2"
