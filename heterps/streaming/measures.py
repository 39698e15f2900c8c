"""What is measured of a pass: metrics by the words of a command line, results as plain rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heterps.data import Schema
from heterps.errors import DataError
from heterps.metrics import GAUC, AUCBy, COPCBy, Metric, SlotAUC, SlotCOPC, metric

__all__ = ["Measure", "chosen_metrics", "rows_of"]

_GROUPED: dict[str, type[AUCBy]] = {"gauc": GAUC, "auc_by": AUCBy, "copc_by": COPCBy}
_BY_SLOT: dict[str, type[SlotAUC] | type[SlotCOPC]] = {"slot_auc": SlotAUC, "slot_copc": SlotCOPC}
Measure = tuple[str, str]  # the metric's name, and the group or slot where it has several results


def chosen_metrics(given: Sequence[str | Metric], schema: Schema) -> tuple[Metric, ...]:
    """Return the metrics that are meant: names as everywhere, and some that need the columns of the data.

    ``gauc:user``, ``auc_by:city`` and ``copc_by:city`` group rows by a source column (or a column of batches) of that
    name; ``slot_auc`` and ``slot_copc`` are AUC and COPC over the rows that have each slot.
    """
    return tuple(_one(each, schema) if isinstance(each, str) else each for each in given)


def _one(name: str, schema: Schema) -> Metric:
    kind, _, column = name.partition(":")
    if kind in _GROUPED and column:
        group, element = _column(column, name, schema)
        return replace(_GROUPED[kind](), group=group, element=element, name=name)
    if kind in _BY_SLOT:
        wanted = column or "ids"
        if wanted not in schema or not schema[wanted].labels:
            raise DataError(f"metric {name!r} needs a column of slots with names; there are {', '.join(schema.names)}")
        ids = schema[wanted]
        return _BY_SLOT[kind](ids.name, ids.labels, ids.absent, name=name)
    return metric(name)


def _column(wanted: str, name: str, schema: Schema) -> tuple[str, int]:
    """Return the column of batches and the element in it that a name stands for."""
    if wanted in schema:
        return wanted, 0
    for column in schema:
        if column.kind == "sparse" and wanted in column.labels:
            return column.name, column.labels.index(wanted)
    known = [label for column in schema if column.kind == "sparse" for label in column.labels]
    raise DataError(f"metric {name!r}: there is no column {wanted!r}; there are {', '.join((*schema.names, *known))}")


def rows_of(results: Mapping[str, Any]) -> dict[Measure, float]:
    """Return results as numbers by metric and group; what is no number is left out."""
    found: dict[Measure, float] = {}
    for name, result in results.items():
        for group, value in result.items() if isinstance(result, Mapping) else _single(result):
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[name, str(group)] = float(value)
    return found


def _single(result: Any) -> Iterable[tuple[str, Any]]:
    return [("", result)]
