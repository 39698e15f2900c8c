"""Numbers for rows."""

import numpy as np
import pandas as pd
import pytest

import heterps as hps
from heterps.errors import DataError


def test_targets_of_any_scale() -> None:
    rng = np.random.default_rng(1)
    x = pd.DataFrame({"a": rng.normal(size=200), "b": rng.choice(["p", "q"], 200)})
    y = 5000 + 300 * x["a"] + 900 * (x["b"] == "p")
    model = hps.Regressor("wide_deep", epochs=30, batch_size=32).fit(x, y, eval_set=(x, y))
    assert model.score(x, y) > 0.98
    rmse = float(np.sqrt(np.mean((model.predict(x) - y) ** 2)))
    assert np.isclose(rmse, model.evals_result_["validation_0"]["rmse"][-1], rtol=1e-3)
    assert model.predict(x).index.equals(x.index)


def test_y_must_fit() -> None:
    with pytest.raises(DataError, match="X has 3 rows and y has 2"):
        hps.Regressor().fit(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), [1.0, 2.0])
    with pytest.raises(ValueError, match="requires y"):
        hps.Regressor().fit(np.ones((3, 1)), None)
