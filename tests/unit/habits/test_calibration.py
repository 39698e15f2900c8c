"""Probabilities that are: rising, bounded, no worse than before, and right where the truth is known."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import heterps as hps
from heterps.errors import DataError, UnknownKindError
from heterps.habits.calibration import Method, fit
from heterps.habits.reliability import Reliability
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data


def drawn(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Predictions whose odds are the true ones to the third power, and what happened."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.02, 0.98, rows)
    odds = (truth / (1 - truth)) ** 3
    return odds / (1 + odds), (rng.random(rows) < truth).astype(np.float64)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_what_is_too_sure_becomes_right(method: Method) -> None:
    found = fit(*drawn(20_000), method)
    fresh, happened = drawn(20_000, seed=1)
    before, after = Reliability.of(fresh, happened).error, Reliability.of(found(fresh), happened).error
    assert before > 0.1 > 0.03 > after
    assert str(found).startswith(f"{method}: expected calibration error 0.1")
    if method == "platt":
        assert (found.slope, found.shift) == (pytest.approx(1 / 3, abs=0.02), pytest.approx(0, abs=0.05))


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=60).filter(
        lambda rows: len({happened for _, happened in rows}) == 2
    ),
    method=st.sampled_from(["isotonic", "platt"]),
)
def test_it_rises_and_stays_within_bounds(rows: list[tuple[float, bool]], method: Method) -> None:
    predictions, labels = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    found = fit(predictions, labels, method)
    values = found(np.linspace(0, 1, 101))
    assert values.min() >= 0
    assert values.max() <= 1
    if method == "isotonic":
        assert (np.diff(values) >= -1e-12).all()
        own = found(predictions)
        assert np.square(own - labels).sum() <= np.square(predictions - labels).sum() + 1e-9, "it is the best of all"
        for value in np.unique(own):  # pooled rows have the mean of their labels
            assert labels[np.isclose(own, value, atol=1e-12)].mean() == pytest.approx(value, abs=1e-9)


def test_a_session_is_calibrated_and_the_picture_is_one() -> None:
    with hps.launch(plan(), engine="inline") as session:
        session.fit(data())
        found = hps.calibrate(session, data(400, seed=8))
        values = found(session.predict(data(100, seed=9)))
    assert values.shape == (100,)
    assert found.after.error <= found.before.error
    picture = found.plot()
    ElementTree.fromstring(picture)
    assert re.search(r"calibrated: expected calibration error 0\.\d+", picture)


def test_missing_numbers_stay_and_bad_data_is_named() -> None:
    predictions, labels = drawn(200)
    predictions[0] = np.nan
    found = fit(predictions, labels, "isotonic")
    assert np.isnan(found(np.array([np.nan]))[0])
    for wrong in (np.zeros(200), labels + 1):
        with pytest.raises(DataError, match="labels 0 and rows with labels 1"):
            fit(predictions, wrong, "platt")
    with pytest.raises(UnknownKindError, match="no calibration is called 'beta'; there are isotonic, platt"):
        hps.calibrate(None, None, "beta")  # type: ignore[arg-type]
