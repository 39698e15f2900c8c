"""``fit``, ``predict``, ``score`` around a session, by scikit-learn's conventions; ``client=`` as xgboost.dask has it.

Names are imported when they are first used: workers that shape predictions need no scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heterps.later import names_later

if TYPE_CHECKING:
    from heterps.estimator.classifier import Classifier as Classifier
    from heterps.estimator.regressor import Regressor as Regressor

__all__ = ["Classifier", "Regressor"]
__getattr__ = names_later(__name__, {name: f"heterps.estimator.{name.lower()}" for name in __all__}, globals())
