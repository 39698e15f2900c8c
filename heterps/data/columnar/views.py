"""Text as views, in which polars has it: Arrow lacks some of its functions for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["without_views"]

_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def without_views(table: Any) -> Any:
    """Return a table with text of the plain kind, also in dictionaries."""
    for i, column in enumerate(table.schema):
        is_encoded = pa.types.is_dictionary(column.type)
        kind = column.type.value_type if is_encoded else column.type
        if kind in _PLAIN:
            chunks = [_encoded(c, _PLAIN[kind]) if is_encoded else c.cast(_PLAIN[kind]) for c in table.column(i).chunks]
            plain = pa.dictionary(column.type.index_type, _PLAIN[kind]) if is_encoded else _PLAIN[kind]
            table = table.set_column(i, column.name, pa.chunked_array(chunks, plain))
    return table


def _encoded(chunk: Any, kind: Any) -> Any:
    return pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind))
