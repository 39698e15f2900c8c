"""Values of Arrow's other types (decimals, dates, times) as the text that they count as."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from heterps.later import later

__all__ = ["written"]

pc = later("pyarrow.compute")

# How finely the times of a column are counted is no part of its values: zeros at the end of a fraction, then its point.
_IDLE = ((r"(\.\d*?)0+(Z|[+-]\d{4})?$", r"\1\2"), (r"\.(Z|[+-]\d{4})?$", r"\1"))


def written(array: Any) -> Any:
    """Return values as text, times with as many digits as they need."""
    text = array.cast(pa.string())
    for pattern, kept in _IDLE if pa.types.is_timestamp(array.type) or pa.types.is_time(array.type) else ():
        text = pc.replace_substring_regex(text, pattern, kept)
    return text
