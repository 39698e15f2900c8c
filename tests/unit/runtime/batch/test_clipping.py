"""Clipped gradients: bounded, in the same direction, the same on every engine, and none where nothing is too large."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import heterps as hps
from heterps.errors import CheckpointError, PlanError
from heterps.runtime.batch.clipping import Clip
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data


@settings(deadline=None)
@given(
    gradient=hnp.arrays(np.float32, (4, 3), elements=st.floats(-1e6, 1e6, width=32)),
    norm=st.none() | st.floats(0.01, 100),
    value=st.none() | st.floats(0.01, 100),
)
def test_rows_are_bounded_and_point_where_they_did(
    gradient: np.ndarray, norm: float | None, value: float | None
) -> None:
    given_, clip = gradient.copy(), Clip(norm, value)
    clip.rows(gradient)
    bounded = given_ if value is None else np.clip(given_, -value, value)
    norms = np.linalg.norm(bounded.astype(np.float64), axis=1)
    scale = np.ones(4) if norm is None else np.minimum(1, norm / np.maximum(norms, 1e-30))
    np.testing.assert_allclose(gradient, bounded * scale[:, None], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(gradient[scale == 1], bounded[scale == 1])  # to the last bit


def test_what_is_not_finite_stays_so() -> None:
    gradient = np.array([[np.nan, 1], [np.inf, 1], [30, 40]], np.float32)
    Clip(norm=5).rows(gradient)
    assert not np.isfinite(gradient[:2]).all(axis=1).any()
    np.testing.assert_allclose(gradient[2], [3, 4], rtol=1e-6)


def trained(engine: str, **options: Any) -> np.ndarray:
    rules = {"sparse": hps.SGD(lr=1.0), "dense": hps.SGD(lr=1.0)}
    with hps.launch(plan(), engine=engine, mode="sync", **rules, **options) as session:
        session.fit(data(400))
        return np.asarray(session.predict(data(100)))


def test_both_engines_clip_alike_and_large_bounds_change_nothing() -> None:
    free, clipped = trained("inline"), trained("inline", clip_norm=1e-3)
    assert not np.array_equal(free, clipped)
    np.testing.assert_array_equal(trained("inline", clip_norm=1e9, clip_value=1e9), free)
    np.testing.assert_array_equal(trained("dask", clip_norm=1e-3), clipped)


def test_a_step_is_no_longer_than_the_bound() -> None:
    rules = {"sparse": hps.SGD(lr=1.0), "dense": hps.SGD(lr=1.0)}
    steps = {}
    for norm in (None, 1e-4):
        with hps.launch(plan(), engine="inline", clip_norm=norm, **rules) as session:
            before = _dense(session)
            session.fit(data(plan().batch_size))
            steps[norm] = _dense(session) - before
            spans = [piece.span for piece in session.job.model.layout]
    assert all(np.linalg.norm(steps[1e-4][span]) <= 1.01e-4 for span in spans)
    assert any(np.linalg.norm(steps[None][span]) > 1e-3 for span in spans), "the bound was needed"


def _dense(session: hps.Session) -> np.ndarray:
    return np.array(session.engine.each_shard(_pull)[0])


def _pull(shard: Any, host: int) -> Any:
    return shard.pull_dense()


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_bounds_that_bound_nothing_are_refused(bad: float) -> None:
    with pytest.raises(PlanError, match=r"clip_norm=.*must be a finite number above 0"):
        hps.launch(plan(), engine="inline", clip_norm=bad)


def test_another_bound_is_another_run(tmp_path: Path) -> None:
    with hps.launch(plan(), engine="inline", clip_norm=1.0, checkpoint=tmp_path) as session:
        session.fit(data(400))
    with (
        hps.launch(plan(), engine="inline", clip_norm=2.0, resume=tmp_path) as session,
        pytest.raises(CheckpointError, match="clip norm"),
    ):
        session.fit(data(400), epochs=2)
