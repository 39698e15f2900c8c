"""The Criteo display-advertising format: label, 13 integers, 26 hashed categories, tab-separated, empty = missing."""

from __future__ import annotations

from typing import Any

from heterps.data.core.files import expand
from heterps.data.core.recipes import Category, Number
from heterps.data.core.schema import Schema, dense, label, sparse
from heterps.data.text.delimited_text import Paths, Text

__all__ = ["CRITEO_COLUMNS", "Criteo", "criteo_schema"]

INTEGERS = tuple(f"I{i}" for i in range(1, 14))
CATEGORIES = tuple(f"C{i}" for i in range(1, 27))
CRITEO_COLUMNS = ("label", *INTEGERS, *CATEGORIES)


def criteo_schema() -> Schema:
    """Return ids [n, 26] (each category salted with its column), x [n, 13] (log-transformed) and y."""
    return Schema.of(
        sparse("ids", *(Category(name) for name in CATEGORIES)),
        dense("x", *(Number(name, log=True) for name in INTEGERS)),
        label("y", Number("label")),
    )


def Criteo(paths: Paths, fields: Schema | None = None, **options: Any) -> Text:  # noqa: N802 - reads as the type it makes: hps.Criteo("train-*.tsv")
    """Read Criteo TSV files.

    Examples
    --------
    >>> data = Criteo("train-*.tsv")  # doctest: +SKIP
    >>> for split in data.splits():  # doctest: +SKIP
    ...     for batch in data.read(split, batch_size=4096):
    ...         batch["ids"], batch["x"], batch["y"]
    """
    settings: dict[str, Any] = {
        "fields": criteo_schema() if fields is None else fields,
        "delimiter": "\t",
        "quote": "",
    } | options
    return Text(paths=expand(paths), columns=CRITEO_COLUMNS, **settings)
