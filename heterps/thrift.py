"""Thrift's compact protocol, in which Parquet describes itself: structs as dicts from field number to value.

``int`` is a 32-bit integer; the other widths have a type of their own, since a reader skips a field of the wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

__all__ = ["I8", "I16", "I64", "Data", "decode", "encode", "first_of_list", "varint"]

Data = bytes | memoryview


class I8(int):
    """An 8-bit integer."""


class I16(int):
    """A 16-bit integer."""


class I64(int):
    """A 64-bit integer."""


_TRUE, _FALSE, _BYTE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 8, 9, 12
_INTEGERS: dict[int, type[int]] = {4: I16, 5: int, 6: I64}
_DEEPEST = 16  # Parquet's own go four deep
_KINDS: dict[type, int] = {I8: _BYTE, I16: 4, int: 5, I64: 6, bytes: _BINARY, list: _LIST, dict: _STRUCT}


def encode(fields: Mapping[int, Any]) -> bytes:
    """Return a struct as bytes; its fields come in ascending order, in steps of at most 15."""
    out = bytearray()
    number = 0
    for next_, value in fields.items():
        kind = (_TRUE if value else _FALSE) if isinstance(value, bool) else _KINDS[type(value)]
        out.append(next_ - number << 4 | kind)
        number = next_
        if not isinstance(value, bool):
            out += _encoded(value)
    return bytes(out + b"\0")


def _encoded(value: Any) -> bytes:
    if isinstance(value, I8):
        return value.to_bytes(1, "little", signed=True)
    if isinstance(value, int):
        return varint(value << 1 ^ value >> 63)
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if isinstance(value, dict):
        return encode(value)
    kind = _KINDS[type(value[0])] if value else _STRUCT
    head = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind]) + varint(len(value))
    return head + b"".join(map(_encoded, value))


def varint(value: int) -> bytes:
    """Return a number of at least 0 in as few bytes as it needs."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode(data: Data, at: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the struct that begins at a byte, and where it ends; never looks or goes beyond the data."""
    if depth > _DEEPEST:
        raise pa.ArrowInvalid(f"structs within structs at byte {at}")
    fields: dict[int, Any] = {}
    number = 0
    while data[at]:
        number, kind, at = _read_head(data, at, number)
        fields[number], at = _read(data, at, kind, depth)
    return fields, at + 1


def _read_head(data: Data, at: int, number: int) -> tuple[int, int, int]:
    """Return number and kind of the field that begins at a byte, and where its value does; ``number`` of the last."""
    step, kind = data[at] >> 4, data[at] & 15
    at += 1
    if step == 0:
        number, at = _read_zigzag(data, at)
    return number + step, kind, at


def first_of_list(data: Data, field: int) -> dict[int, Any] | None:
    """Return the first struct of the list in a field of a struct; what comes behind it is not decoded."""
    at = number = 0
    while data[at]:
        number, kind, at = _read_head(data, at, number)
        if number == field:
            size = data[at] >> 4
            if kind != _LIST or data[at] & 15 != _STRUCT or not size:
                return None
            at = _read_varint(data, at + 1)[1] if size == 15 else at + 1
            return decode(data, at, 1)[0]
        _, at = _read(data, at, kind, 0)
    return None


def _read(data: Data, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind == _BYTE:
        return I8(int.from_bytes(data[at : at + 1], "little", signed=True)), at + 1
    if kind in _INTEGERS:
        value, at = _read_zigzag(data, at)
        return _INTEGERS[kind](value), at
    if kind == _BINARY:
        size, at = _read_varint(data, at)
        return bytes(data[at : at + size]), _within(data, at + size)
    if kind == _LIST:
        return _read_list(data, at, depth + 1)
    if kind == _STRUCT:
        return decode(data, at, depth + 1)
    raise pa.ArrowInvalid(f"unexpected field of type {kind} at byte {at}")


def _read_list(data: Data, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > _DEEPEST:
        raise pa.ArrowInvalid(f"lists within lists at byte {at}")
    size, kind = data[at] >> 4, data[at] & 15
    at += 1
    if size == 15:
        size, at = _read_varint(data, at)
    if kind in (_TRUE, _FALSE):
        raise pa.ArrowInvalid(f"unexpected list of booleans at byte {at}")  # whose elements take no bytes here
    _within(data, at + size)  # an element takes a byte or more
    values = []
    for _ in range(size):
        value, at = _read(data, at, kind, depth)
        values.append(value)
    return values, at


def _read_varint(data: Data, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:  # of 64 bits, seven a byte
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise pa.ArrowInvalid(f"a number of more than 64 bits at byte {at}")


def _within(data: Data, at: int) -> int:
    if at > len(data):
        raise pa.ArrowInvalid(f"something is said to end at byte {at} of {len(data)}")
    return at


def _read_zigzag(data: Data, at: int) -> tuple[int, int]:
    value, at = _read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at
