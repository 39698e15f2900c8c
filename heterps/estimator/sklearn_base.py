"""The parts of scikit-learn that estimators stand on; it is an extra."""

from __future__ import annotations

from heterps.errors import RunError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight as checked_weights, check_is_fitted, validate_data
except ImportError as error:
    raise RunError("Classifier and Regressor need scikit-learn: pip install 'heterps[sklearn]'") from error

__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "RegressorMixin",
    "check_classification_targets",
    "check_is_fitted",
    "check_random_state",
    "checked_weights",
    "validate_data",
]
