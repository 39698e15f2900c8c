"""What is easily forgotten or misspelt is said."""

import gc
import warnings

import pytest

import heterps as hps
from heterps.errors import RunError
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data


def forgotten(session: hps.Session) -> None:
    session.train(data())
    gc.collect()


def test_training_that_nobody_iterates_over_warns_with_its_place() -> None:
    with hps.launch(plan(), engine="inline") as session:
        with pytest.warns(UserWarning, match="never iterated over, so nothing was trained") as caught:
            forgotten(session)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in session.train(data(200)):
                break
            session.train(data(200)).close()  # type: ignore[attr-defined]
            gc.collect()


def test_a_misspelt_option_names_the_nearest() -> None:
    with pytest.raises(RunError, match=r"launch has no option 'chekpoint'; did you mean 'checkpoint'\?"):
        hps.launch(plan(), engine="inline", chekpoint="cuts")
    with pytest.raises(RunError, match=r"no option 'threads'; it is one of engine='inline'"):
        hps.launch(plan(), engine="dask", threads=2)
    with pytest.raises(RunError, match="no option 'zzz'; there are batch_size, cache_on, cache_rows, checkpoint"):
        hps.launch(plan(), engine="inline", zzz=1)
