"""Whatever a caller has at hand as a dataset: one already, a path, rows, ready-made columns."""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Mapping
from typing import Any

from heterps.data.core.data_form import DataForm
from heterps.data.core.dataset import Dataset
from heterps.data.core.files import expand, first_line
from heterps.data.core.formats import READERS, guess_format, open_dataset
from heterps.data.core.schema import Schema
from heterps.data.sources.arrays import arrays
from heterps.errors import DataError

__all__ = ["given_data", "open_known"]

_DELIMITED = ("criteo", "csv", "tsv")


def given_data(given: Any, form: DataForm | None, columns: Collection[str]) -> Dataset:
    """Return a dataset of what was given; its columns are yet to be fitted to the form.

    Parameters
    ----------
    given
        A Dataset, a path, batch columns as a dict of arrays, or rows (see
        :func:`~heterps.data.columnar.raw_rows.raw_rows`).
    form
        What is remembered of the data before; None for nothing.
    columns
        Batch columns that will be read: a dict that has them all holds ready-made ones.
    """
    if isinstance(given, Dataset):
        return given
    if isinstance(given, os.PathLike) or (isinstance(given, str) and not given.lstrip().startswith("{")):
        return open_known(os.fspath(given), form)
    if isinstance(given, Mapping) and columns and all(name in given for name in columns):
        return arrays(given)
    if form is None or not form.has_recipes:
        raise DataError(
            f"nothing says how rows ({type(given).__name__}) become batches: the model was not trained on files or "
            "frames. Give a Dataset, or the columns of batches as a dict of arrays"
        )
    from heterps.data.columnar.raw_rows import raw_rows  # rows given one by one are rare, and need Arrow's columns

    return raw_rows(given, form.fields)


def open_known(paths: Any, form: DataForm | None, format: str = "auto") -> Dataset:
    """Open files without looking for a schema where one is remembered; it is put in by fitting.

    Parameters
    ----------
    paths, format
        As for :func:`~heterps.data.core.formats.open_dataset`.
    form
        What is remembered; None for nothing.
    """
    is_bundled = isinstance(paths, str) and paths.split(":")[0] == "adult"
    if form is None or not form.has_recipes or is_bundled:
        return open_dataset(paths, format)
    chosen = guess_format(paths) if format == "auto" else format
    if chosen in READERS and "fields" not in inspect.signature(READERS[chosen]).parameters:
        return open_dataset(paths, chosen)  # its reader decides what columns are
    name, reading = _read_as(paths, chosen, form.reading) if format == "auto" else (chosen, {})
    return open_dataset(paths, name, fields=Schema(), guessed=True, **reading)


def _read_as(paths: Any, guessed: str, known: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Read as before, as far as the file looks like those before."""
    if guessed in _DELIMITED and "delimiter" in known:
        if "columns" in known or known["delimiter"].encode() in first_line(expand(paths)[0]):
            return "csv", dict(known)
    elif guessed == "slots" and "style" in known:
        return guessed, dict(known)
    return guessed, {}
