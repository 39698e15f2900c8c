"""Metrics that merge exactly across workers."""

from functools import partial

from heterps.metrics.auc import AUC, BucketError, ExactAUC
from heterps.metrics.calibrated import COPCBy, SlotCOPC
from heterps.metrics.errors import (
    MAE,
    MSE,
    RMSE,
    Accuracy,
    Bundle,
    CrossEntropy,
    LogLoss,
    Mean,
    Ratio,
    TopAccuracy,
    actual_ctr,
    copc,
    ctr_bundle,
    predicted_ctr,
)
from heterps.metrics.grouped import GAUC, AUCBy, SlotAUC
from heterps.metrics.metric import METRICS, Custom, Metric, State, merge_all, metric, register_metric
from heterps.metrics.metricset import MetricSet, Running
from heterps.metrics.tasks import OfTask

__all__ = [
    "AUC",
    "GAUC",
    "MAE",
    "METRICS",
    "MSE",
    "RMSE",
    "AUCBy",
    "Accuracy",
    "BucketError",
    "Bundle",
    "COPCBy",
    "CrossEntropy",
    "Custom",
    "ExactAUC",
    "LogLoss",
    "Mean",
    "Metric",
    "MetricSet",
    "OfTask",
    "Ratio",
    "Running",
    "SlotAUC",
    "SlotCOPC",
    "State",
    "TopAccuracy",
    "actual_ctr",
    "copc",
    "ctr_bundle",
    "merge_all",
    "metric",
    "predicted_ctr",
    "register_metric",
]

for _make in (
    AUC,
    BucketError,
    ExactAUC,
    LogLoss,
    CrossEntropy,
    MAE,
    MSE,
    RMSE,
    Accuracy,
    actual_ctr,
    predicted_ctr,
    copc,
    ctr_bundle,
):
    register_metric(_make().name, _make)
register_metric("gauc", GAUC)
for _k in (1, 5):
    register_metric(f"acc{_k}", partial(TopAccuracy, _k))
