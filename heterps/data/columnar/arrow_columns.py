"""One Arrow column as the plain arrays compiled loops take: numbers, hashes, ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.data.columnar import spans
from heterps.data.columnar.written import written
from heterps.data.text.numeric import BAD_NUMBER
from heterps.errors import DataError
from heterps.later import later

__all__ = ["ArrowColumn", "TakenColumn"]

pc = later("pyarrow.compute")

_NONE: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_LARGE = 2.0**63  # integers have 64 bits


@dataclass(frozen=True)
class TakenColumn:
    """Ids as a table and an index into it: a dictionary-encoded column hashed once per distinct value."""

    table: npt.NDArray[np.uint64]
    index: npt.NDArray[np.int32]

    def plain(self) -> npt.NDArray[np.uint64]:
        """Return one id a row."""
        return self.table[self.index]


Numbers = tuple[npt.NDArray[Any], npt.NDArray[np.uint8], npt.NDArray[np.int64] | None]
_INTEGERS = (pa.int32(), pa.int64())
_WIDE = (pa.uint32(), pa.uint64(), pa.int32(), pa.int64())
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_DIRECT = (*_INTEGERS, pa.float32(), pa.float64())


@dataclass(frozen=True)
class ArrowColumn:
    """A column of one chunk. Text and dictionaries of text, integers, floats, booleans and lists are understood."""

    name: str
    array: Any

    def __post_init__(self) -> None:
        """Text as views (polars gives it so) lies in many buffers: it is put into one. Nothing at all is no text."""
        others = (pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
        if any(check(self.array.type) for check in others):
            object.__setattr__(self, "array", self.array.cast(pa.large_binary()))
        elif pa.types.is_null(self.array.type):
            object.__setattr__(self, "array", self.array.cast(pa.string()))

    def __len__(self) -> int:
        return len(self.array)

    @property
    def is_text(self) -> bool:
        """Whether values are strings or bytes."""
        kind = self.array.type
        return any(
            check(kind)
            for check in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
        )

    @cached_property
    def dictionary(self) -> ArrowColumn | None:
        """The distinct values of a dictionary-encoded column."""
        is_encoded = pa.types.is_dictionary(self.array.type)
        return ArrowColumn(self.name, self.array.dictionary) if is_encoded else None

    @cached_property
    def index(self) -> npt.NDArray[np.int32]:
        """Positions in the dictionary; null is one behind its end."""
        indices = self.array.indices
        if indices.null_count:
            indices = indices.fill_null(len(self.array.dictionary))
        return np.ascontiguousarray(indices.to_numpy(zero_copy_only=False), np.int32)

    @cached_property
    def valid(self) -> npt.NDArray[np.uint8]:
        """1 where a value is present; empty where all are."""
        bitmap = self.array.buffers()[0]
        if self.array.null_count == 0 or bitmap is None:
            return _NONE
        first = self.array.offset
        return np.unpackbits(np.frombuffer(bitmap, np.uint8), count=first + len(self), bitorder="little")[first:]

    @cached_property
    def present(self) -> npt.NDArray[np.uint8]:
        """As ``valid``; empty text counts as missing."""
        if self.dictionary is not None:
            return ArrowColumn(self.name, self.array.dictionary_decode()).present
        if not self.is_text:
            return self.valid
        there = np.diff(self.text[1]) > 0
        return (there & (self.valid != 0) if len(self.valid) else there).astype(np.uint8)

    @cached_property
    def text(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
        """Bytes (padded) and offsets of a text column."""
        wide = pa.types.is_large_string(self.array.type) or pa.types.is_large_binary(self.array.type)
        _, buffer, data = self.array.buffers()
        first, count = self.array.offset, len(self.array)
        offsets = np.frombuffer(buffer, np.int64 if wide else np.int32)[first : first + count + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        padded = np.zeros(end - begin + 16, np.uint8)
        if data is not None:
            padded[: end - begin] = np.frombuffer(data, np.uint8)[begin:end]
        return padded, offsets.astype(np.int64) - begin

    @cached_property
    def integers(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Magnitude and sign of an integer or boolean column."""
        array = self.array.cast(pa.uint8()) if pa.types.is_boolean(self.array.type) else self.array
        if not pa.types.is_integer(array.type):
            raise DataError(f"column {self.name!r} has type {array.type}: a category or id needs text or integers")
        values = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
        negative = values < 0
        if values.dtype.kind == "i":
            # Two's complement: the magnitude of the smallest int64 has no positive int64.
            wide = values.astype(np.int64).view(np.uint64)
            return np.where(negative, np.uint64(0) - wide, wide), negative
        return values.astype(np.uint64), negative

    @property
    def is_written(self) -> bool:
        """Whether values are hashed as a file would have them written: floats, decimals, dates and times."""
        kind = self.array.type
        return any(check(kind) for check in (pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal))

    @cached_property
    def written(self) -> ArrowColumn:
        """The column as text; whole floats (integers beside missing values, in pandas) as integers."""
        return self.whole if pa.types.is_integer(self.whole.array.type) else ArrowColumn(self.name, _text(self.array))

    @cached_property
    def whole(self) -> ArrowColumn:
        """The column as integers if it holds whole floats, NaN being missing; else as it is."""
        if not pa.types.is_floating(self.array.type):
            return self
        array = pc.if_else(pc.is_nan(self.array), pa.scalar(None, self.array.type), self.array)
        try:
            return ArrowColumn(self.name, array.cast(pa.int64()))
        except pa.ArrowInvalid:  # a fraction, an infinity, or more than 64 bits
            return self

    def hashes(self, salt: int) -> npt.NDArray[np.uint64] | TakenColumn:
        """Hash each value's text; null is the empty string."""
        if self.dictionary is not None:
            table = np.asarray(self.dictionary.hashes(salt))
            return TakenColumn(np.append(table, _hash_of_nothing(salt)), self.index)
        if self.is_written:
            return self.written.hashes(salt)
        out = np.empty(len(self), np.uint64)
        if self.is_text:
            spans.hash_spans(*self.text, self.valid, np.uint64(salt), out)
        else:
            values, negative = self.integers
            spans.hash_integers(values, negative, self.valid, np.uint64(salt), out)
        return out

    @cached_property
    def numbers(self) -> Numbers:
        """Values, presence (empty: all) and faults; NaN is missing, an infinity or too large a number a fault."""
        if self.dictionary is not None:
            values, present, bad = self.dictionary.numbers
            there = np.append(present if len(present) else np.ones(len(values), np.uint8), np.uint8(0))
            index = self.index
            faults = None if bad is None else np.append(bad, 0)[index]
            return np.append(values, 0)[index], there[index], faults
        if self.is_text:
            return self._numbers_of_text()
        return self._numbers_of_numbers()

    def _numbers_of_text(self) -> Numbers:
        values, present = np.zeros(len(self)), np.zeros(len(self), np.uint8)
        bad = np.zeros(len(self), np.int64)
        spans.numbers_of_spans(*self.text, self.valid, values, present, bad)
        return values, present, bad

    def _numbers_of_numbers(self) -> Numbers:
        kind = self.array.type
        if not (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_decimal(kind)
        ):
            raise DataError(f"column {self.name!r} has type {kind}: expected numbers")
        array = self.array if kind in _DIRECT else self.array.cast(pa.float64(), safe=False)
        # The values of nulls are whatever lies in the buffer: they are never looked at.
        values = np.frombuffer(array.buffers()[1], array.type.to_pandas_dtype())[
            array.offset : array.offset + len(array)
        ]
        if array.type in _INTEGERS:
            return values, self.valid, None
        return _checked(values, self.valid)

    @cached_property
    def plain_integers(self) -> npt.NDArray[Any] | None:
        """The integers in place, if all that are present can be ids; what lies under nulls is never looked at."""
        kind = self.array.type
        if not pa.types.is_integer(kind):
            return None
        array = self.array if kind in _WIDE else self.array.cast(pa.int64())
        values = np.frombuffer(array.buffers()[1], array.type.to_pandas_dtype())[
            array.offset : array.offset + len(array)
        ]
        return values if spans.all_ids(values, self.valid) else None

    @cached_property
    def ids(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64] | None]:
        """Integers as they stand, and faults (negative, missing, reserved), None if there are none."""
        if self.dictionary is not None:
            return ArrowColumn(self.name, self.array.dictionary_decode()).ids
        bad = np.zeros(len(self), np.int64)
        if self.is_text:
            out = np.zeros(len(self), np.uint64)
            spans.ids_of_spans(*self.text, self.valid, out, bad)
            return out, bad
        values, negative = self.integers
        spans.ids_of_integers(values, negative, self.valid, bad)
        return values, bad

    @cached_property
    def lists(self) -> tuple[ArrowColumn, npt.NDArray[np.int64]]:
        """Elements and offsets of a list column; null is an empty list."""
        kind = self.array.type
        if not any(check(kind) for check in _LISTS):
            raise DataError(f"column {self.name!r} has type {kind}: expected lists or text with separators")
        found = pc.list_value_length(self.array).fill_null(0)
        lengths = np.ascontiguousarray(found.to_numpy(zero_copy_only=False), np.int64)
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return ArrowColumn(self.name, self.array.flatten()), offsets

    def split(self, separator: str) -> ArrowColumn:
        """Return a text column as lists of its parts; lists are returned as they are."""
        array = self.array.dictionary_decode() if self.dictionary is not None else self.array
        text = ArrowColumn(self.name, array)
        return ArrowColumn(self.name, pc.split_pattern(array, separator)) if text.is_text else text


def _text(array: Any) -> Any:
    """Return values as text, whole floats as integers: what a value counts as does not depend on those beside it."""
    if not pa.types.is_floating(array.type):
        return written(array)
    nothing = pa.scalar(None, array.type)
    array = pc.if_else(pc.is_nan(array), nothing, array)
    wide = array.cast(pa.float64())
    is_whole = pc.and_(pc.equal(pc.trunc(wide), wide), pc.and_(pc.greater_equal(wide, -_LARGE), pc.less(wide, _LARGE)))
    whole = pc.if_else(is_whole, wide, pa.scalar(None, pa.float64())).cast(pa.int64(), safe=False)
    return pc.coalesce(whole.cast(pa.string()), array.cast(pa.string()))


def _checked(values: npt.NDArray[Any], valid: npt.NDArray[np.uint8]) -> Numbers:
    """Find NaN (missing) and infinities (faults) among floats."""
    with np.errstate(over="ignore"):
        fine = np.abs(values) <= _FLOAT32_MAX
    if fine.all():
        return values, valid, None
    nan = np.isnan(values)
    present = ~nan & (valid != 0) if len(valid) else ~nan
    return values, present.astype(np.uint8), np.where(present & ~fine, BAD_NUMBER, 0)


def _hash_of_nothing(salt: int) -> np.uint64:
    from heterps.data.core.value_hash import hash_bytes

    return np.uint64(hash_bytes(b"", salt))
