"""A schema from the first rows of a file: numbers become dense, text becomes categories."""

from __future__ import annotations

import csv as stdlib_csv
import io
from typing import Any

from heterps.data.core.files import open_bytes
from heterps.data.core.recipes import Category, Number
from heterps.data.core.schema import Field, Schema, dense, label, sparse
from heterps.errors import DataError

__all__ = ["infer_schema", "schema_of_kinds"]

HEAD_BYTES = 1 << 18
LABEL_NAMES = ("y", "label", "click", "target")


def infer_schema(
    path: str, columns: tuple[str, ...], delimiter: str, quote: str, header: bool, label_name: str = ""
) -> Schema:
    """Look at the head of a file: a column whose every value there is a number (or missing) is dense."""
    with open_bytes(path) as file:
        text = file.read_exactly(HEAD_BYTES).decode("utf-8", "replace").replace("\0", "")
    whole = text if len(text) < HEAD_BYTES else text[: text.rfind("\n")]
    how: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": stdlib_csv.QUOTE_NONE}
    try:
        lines = list(stdlib_csv.reader(io.StringIO(whole), delimiter=delimiter, **how))
    except stdlib_csv.Error as error:
        raise DataError(f"cannot infer a schema from {path}: {error}; give fields=Schema.of(...)") from error
    rows = [line for line in lines[int(header) :] if len(line) == len(columns)]
    if not rows:
        raise DataError(
            f"cannot infer a schema: {path} has no row of {len(columns)} columns; give fields=Schema.of(...)"
        )
    numeric = tuple(all(_is_number(row[i]) for row in rows) for i in range(len(columns)))
    return schema_of_kinds(columns, numeric, label_name)


def schema_of_kinds(columns: tuple[str, ...], numeric: tuple[bool, ...], label_name: str = "") -> Schema:
    """Return x (all numeric columns), ids (all others) and y (the label) from what is known of the columns."""
    target = label_name or next((name for name in LABEL_NAMES if name in columns), "")
    if label_name and label_name not in columns:
        raise DataError(f"there is no column {label_name!r} to be the label; there are {', '.join(columns)}")
    numbers = [name for name, is_number in zip(columns, numeric, strict=True) if is_number and name != target]
    texts = [name for name, is_number in zip(columns, numeric, strict=True) if not is_number and name != target]
    fields: list[Field] = []
    if texts:
        fields.append(sparse("ids", *(Category(name) for name in texts)))
    if numbers:
        fields.append(dense("x", *(Number(name) for name in numbers)))
    if target:
        fields.append(label("y", Number(target)))
    return Schema(tuple(fields))


def _is_number(text: str) -> bool:
    if not text.strip():
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
