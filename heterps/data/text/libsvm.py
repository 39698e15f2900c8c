"""The text of libsvm, libfm and svmlight: a label, then ``index:value`` for each feature that is not 0.

``1 3:1 17:1 204:1`` or ``-1 3:0.5 17:0.25  # a remark``. Features become, as the schema says, a fixed number of ids a
row (``sparse``), any number (``ragged``), or numbers at the places that their indices name (``dense``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heterps.data.core.bad import BadRows
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.dataset import Source
from heterps.data.core.files import expand
from heterps.data.core.labels import default_of, is_required
from heterps.data.core.recipes import Number
from heterps.data.core.schema import Field, Schema, label, ragged, sparse
from heterps.data.core.split import Piece
from heterps.data.study.infer_schema import Study
from heterps.data.study.sampling import sample_lines
from heterps.data.text.delimited_text import Paths
from heterps.data.text.line_files import LineFiles
from heterps.data.text.lines import Lines, LineSource
from heterps.errors import DataError
from heterps.ragged import Ragged

__all__ = ["LibSvm", "libsvm"]

_DENSE = 4096  # features that are numbers, or differ in number, become dense up to this index
_LARGEST = 2**64 - 2
Features = tuple[float, list[int], list[float]]


@dataclass(frozen=True, kw_only=True)
class LibSvm(LineFiles):
    """Files of libsvm text; use :func:`libsvm` to make one."""

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start parsing pieces."""
        return _LibSvmSource(self, pieces, bad)


class _BadLineError(ValueError):
    """Why a line cannot be used."""


class _LibSvmSource(LineSource):
    def __init__(self, data: LibSvm, pieces: tuple[Piece, ...], bad: BadRows) -> None:
        super().__init__(pieces, bad, data.block_bytes)
        self.puts = [_put_of(column, data) for column in data.fields]

    def parse(self, lines: Lines, rows: RowBuffers, row: int, end: int) -> int:
        block = bytes(lines.buffer[lines.pos : lines.end])
        at = 0
        while at < len(block) and row < end:
            stop = block.index(b"\n", at) + 1
            begin, line, at = lines.pos, block[at:stop], stop
            try:
                features = _parsed(line)
                if features is not None:
                    for put in self.puts:
                        put(features, rows, row)
                    row += 1
            except _BadLineError as error:
                self.count_bad(begin, begin + len(line), str(error), str(error), row)
            lines.pos += len(line)
        return row


def _parsed(line: bytes) -> Features | None:
    """Return label (NaN for none), indices and values of a line; None for one that says nothing."""
    try:
        tokens = line.partition(b"#")[0].decode("ascii").split()
    except UnicodeDecodeError:
        raise _BadLineError("not ASCII text") from None
    if not tokens:
        return None
    target = math.nan
    if ":" not in tokens[0]:
        target = _number(tokens.pop(0), "label")
    indices, values = [], []
    for token in tokens:
        index, _, value = token.partition(":")
        if index != "qid":  # of ranking; no feature
            indices.append(_index(index))
            values.append(_number(value, "value"))
    return target, indices, values


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _BadLineError(f"{what} is not a finite number") from None
    if not math.isfinite(value):
        raise _BadLineError(f"{what} is not a finite number")
    return value


def _index(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 20 or int(text) > _LARGEST:
        raise _BadLineError("not an index")
    return int(text)


def _put_of(column: Field, data: LibSvm) -> Any:
    """Return what writes one column of a row."""
    if column.kind in ("label", "weight"):
        return _label_put(column, data)
    if column.kind == "dense":
        return lambda features, rows, row: _put_dense(features, rows[column.name][row])
    if column.kind == "sparse":
        return lambda features, rows, row: _put_ids(features, rows[column.name][row])
    return lambda features, rows, row: rows.put_lists(
        column.name, row, Ragged(np.array(features[1], np.uint64), np.array([0, len(features[1])]))
    )


def _put_dense(features: Features, out: Any) -> None:
    out[:] = 0
    for index, value in zip(features[1], features[2], strict=True):
        if index < len(out):  # a feature that training never saw says nothing
            out[index] = value


def _put_ids(features: Features, out: Any) -> None:
    if len(features[1]) != len(out):
        raise _BadLineError(f"{len(features[1])} features instead of {len(out)}")
    out[:] = features[1]


def _label_put(column: Field, data: LibSvm) -> Any:
    (recipe,) = column.of
    if not isinstance(recipe, Number):
        raise DataError(f"column {column.name!r}: the label of libsvm text is a Number, not {recipe}")
    rule, default = data.labels.rule(column), default_of(recipe, column)
    required = is_required(recipe, rule)

    def put(features: Features, rows: RowBuffers, row: int) -> None:
        value = default if math.isnan(features[0]) else (features[0] - recipe.mean) / recipe.std
        if math.isnan(features[0]) and required:
            raise _BadLineError("no label")
        if value < rule.low or value > rule.high:
            raise _BadLineError("label out of bounds")
        rows[column.name][row] = value

    return put


def libsvm(paths: Paths, fields: Schema | None = None, **options: Any) -> LibSvm:
    """Read libsvm, libfm or svmlight text.

    Parameters
    ----------
    paths
        A path, glob, folder or URL, or several.
    fields
        Columns ``y`` and ``ids`` or ``x``; without it they are inferred: the same number of features on every line,
        each of value 1, becomes ``ids``; up to index 4,096 ``x`` has a place for each; else ``ids`` is ragged. Labels
        -1 and 1 become 0 and 1.
    **options
        Fields of :class:`~heterps.data.core.dataset.Dataset`.
    """
    files = expand(paths)
    options = {"guessed": fields is None} | options
    if fields is None:
        fields, remarks = _infer(sample_lines(files, header=False), files[0])
        options = {"study": Study((), remarks)} | options
    return LibSvm(paths=files, fields=fields, **options)


def _infer(lines: Sequence[str], path: str) -> tuple[Schema, tuple[str, ...]]:
    found = []
    for line in lines:
        try:
            parsed = _parsed(line.encode())
        except (_BadLineError, UnicodeEncodeError):
            continue
        found += [] if parsed is None else [parsed]
    largest = max((index for _, indices, _ in found for index in indices), default=-1)
    if largest < 0:
        raise DataError(f"cannot infer a schema: {path} has no line of libsvm text; give fields=Schema.of(...)")
    features, remark = _features(found, largest)
    targets = {target for target, _, _ in found}
    signed = targets <= {-1.0, 1.0} and -1.0 in targets
    y = label("y", Number("label", mean=-1.0, std=2.0) if signed else Number("label"))
    return Schema.of(features, y), (*remark, *(("label: -1 and 1 become 0 and 1",) if signed else ()))


def _features(found: Sequence[Features], largest: int) -> tuple[Field, tuple[str, ...]]:
    counts = {len(indices) for _, indices, _ in found}
    plain = all(value == 1.0 for _, _, values in found for value in values)
    if plain and len(counts) == 1:
        (count,) = counts
        return sparse("ids", shape=(count,)), (f"features: {count} on every line, each of value 1: ids",)
    if largest <= _DENSE:
        return Field("x", "dense", (largest + 1,)), (f"features: numbers at {largest + 1:,} places",)
    lost = "" if plain else "; values other than 1 are not used"
    return ragged("ids"), (f"features: ids, {min(counts)} to {max(counts)} on a line{lost}",)
