"""Metrics that merge exactly across workers."""

from heterps.metrics.auc import AUC, ExactAUC
from heterps.metrics.errors import MAE, RMSE, Accuracy, LogLoss, Mean
from heterps.metrics.metric import METRICS, Custom, Metric, State, merge_all, metric, register_metric

__all__ = [
    "AUC",
    "MAE",
    "METRICS",
    "RMSE",
    "Accuracy",
    "Custom",
    "ExactAUC",
    "LogLoss",
    "Mean",
    "Metric",
    "State",
    "merge_all",
    "metric",
    "register_metric",
]

for _make in (AUC, ExactAUC, LogLoss, MAE, RMSE, Accuracy):
    register_metric(_make().name, _make)
