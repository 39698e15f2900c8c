"""How rows became batches when a model was trained: what it remembers, so that nothing is guessed a second time."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from heterps.data.core.dataset import Dataset
from heterps.data.core.schema import Field, Schema
from heterps.errors import DataError

__all__ = ["DataForm", "fitted"]

_LOG = logging.getLogger("heterps")


@dataclass(frozen=True)
class DataForm:
    """The columns of a batch with their recipes, and how files were read.

    Parameters
    ----------
    fields
        The columns: names, kinds, and of which source columns each element is made (means, bounds, salts and all).
    reading
        What a text reader needs besides: delimiter, quote, names of columns where files have no header.
    """

    fields: Schema = field(default_factory=Schema)
    reading: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Dataset) -> DataForm:
        """Return the form of a dataset."""
        return cls(data.schema, data.reading())

    @property
    def has_recipes(self) -> bool:
        """Whether it says how batches are made of source columns; arrays and pictures come without."""
        return any(column.of for column in self.fields)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able description."""
        return {"fields": self.fields.to_json(), "reading": dict(self.reading)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DataForm:
        """Inverse of :meth:`to_json`."""
        reading = {name: tuple(item) if isinstance(item, list) else item for name, item in value["reading"].items()}
        return cls(Schema.from_json(value["fields"]), reading)


def fitted(data: Dataset, form: DataForm | None, needed: Collection[str]) -> Dataset:
    """Return a dataset whose columns are made as they were for training.

    A schema that was guessed gives way to the form's: columns are found by name, types are not guessed again. One that
    somebody wrote stays, with a warning where it makes a needed column otherwise.

    Parameters
    ----------
    data
        What was given.
    form
        What is remembered; None for nothing.
    needed
        Batch columns that will be read. Others are left out where the data lacks a source column of theirs, such as
        the label of rows that are to be predicted.
    """
    if form is None or not form.has_recipes:
        return data
    if not data.guessed:
        _warn_of_others(data.schema, form.fields, needed)
        return data
    there = data.source_names
    missing = {column.name: _lacking(column, there) for column in form.fields}
    for column in form.fields:
        if column.name in needed and missing[column.name]:
            if data.has_optional_sources and _some(form.fields, there):
                _LOG.warning("%s has no %r where it was looked at: missing", data.origin, missing[column.name][0])
                missing[column.name] = []
                continue
            raise DataError(
                f"{data.origin} has no column {missing[column.name][0]!r}, of which the model's {column.name!r} was "
                f"made in training; it has {', '.join(there or ()) or 'none'}"
            )
    return data.with_fields(Schema(tuple(column for column in form.fields if not missing[column.name])))


def _some(fields: Schema, there: Collection[str] | None) -> bool:
    """Whether any source column is there."""
    return any(source in (there or ()) for source in fields.sources)


def _lacking(column: Field, there: Collection[str] | None) -> list[str]:
    if there is None:
        return []
    return [source for recipe in column.of for source in recipe.sources if source not in there]


def _warn_of_others(given: Schema, known: Schema, needed: Collection[str]) -> None:
    for column in known:
        if column.name in needed and column.of and column.name in given and given[column.name].of:
            other = [str(a) for a, b in zip(given[column.name].of, column.of, strict=False) if a != b]
            if other:
                _LOG.warning("column %r is made otherwise than for training: it has %s", column.name, other[0])
