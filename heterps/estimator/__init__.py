"""``fit``, ``predict``, ``score`` around a session, by scikit-learn's conventions; ``client=`` as xgboost.dask has it.

Names are imported when they are first used: workers that shape predictions need no scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heterps.estimator.classifier import Classifier as Classifier
    from heterps.estimator.regressor import Regressor as Regressor

__all__ = ["Classifier", "Regressor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'heterps.estimator' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"heterps.estimator.{name.lower()}"), name)
