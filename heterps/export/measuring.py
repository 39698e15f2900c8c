"""Metrics of an exported model over data with labels: what float16 or int8 rows cost."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from heterps.choices import Metrics, evaluation_metrics
from heterps.data import BadRows
from heterps.data.core.data_form import fitted
from heterps.data.sources.given import given_data
from heterps.errors import DataError
from heterps.export.exporting import export_model
from heterps.runtime.batch.kept_metrics import KeptMetrics
from heterps.runtime.batch.labelling import label_bounds, no_rows
from heterps.runtime.batch.model import Model
from heterps.serving.manifest import newest
from heterps.serving.needs import PREDICTION
from heterps.serving.served_model import ServedModel

__all__ = ["loss_of_encoding", "measure_export"]

_BATCH = 4096


def measure_export(path: str | os.PathLike[str], data: Any, metrics: Metrics | None = None) -> dict[str, Any]:
    """Return metrics of an exported model by name.

    Parameters
    ----------
    path
        The export, or one generation of it.
    data
        With labels: a Dataset, a path, or rows as for a session's ``evaluate``.
    metrics
        As for ``session.evaluate``.
    """
    model = ServedModel(newest(Path(path)))
    chosen, label = evaluation_metrics(model.graph, metrics), Model(model.graph).label
    if label is None:
        raise DataError(f"metrics compare with a label, but {model.graph.loss!r} computes its own")
    wanted = model.wanted(PREDICTION)
    needed = {*wanted.columns, label}
    dataset = fitted(given_data(data, model.form, needed), model.form, needed)
    dataset = dataset.labels_within(label_bounds(model.graph)).shuffle("none")
    kept, samples = KeptMetrics(chosen, label), 0
    for split in dataset.splits():
        for batch in dataset.read(split, batch_size=_BATCH, bad=BadRows(dataset.bad_input)):
            columns = {name: batch[name] for name in wanted.columns}
            kept.update(model.run_columns(columns, wanted), batch)
            samples += batch.size
    if not samples:
        raise no_rows("measured", dataset)
    states = kept.take()
    return {metric.name: metric.result(states[metric.name]) for metric in chosen}


def loss_of_encoding(
    model: str | os.PathLike[str], exported: Path, data: Any, metrics: Metrics | None = None
) -> dict[str, tuple[Any, Any]]:
    """Return metrics of a saved model's float32 rows and of its export, by name.

    Parameters
    ----------
    model
        The saved model that was exported.
    exported
        The generation that :func:`~heterps.export.exporting.export_model` returned.
    data, metrics
        As for :func:`measure_export`.
    """
    found = measure_export(exported, data, metrics)
    with tempfile.TemporaryDirectory(dir=exported.parent, prefix=".measured-") as folder:
        exact = measure_export(export_model(model, folder, onnx="no"), data, metrics)
    return {name: (exact[name], found[name]) for name in found}
