"""Images: the idx files of MNIST, and folders with one subfolder a class."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.data.core.bad import BadRow, BadRows
from heterps.data.core.chunks import ChunkSource, Columns
from heterps.data.core.dataset import Dataset, Source
from heterps.data.core.files import is_compressed, open_bytes, size_of
from heterps.data.core.fingerprint import file_marks
from heterps.data.core.schema import Schema, dense, label
from heterps.data.core.split import Piece
from heterps.data.core.usable import Located, usable_chunks
from heterps.errors import DataError

__all__ = ["Idx", "Images", "idx", "image_folder"]

CHUNK = 256
_GZIP = 1100  # more than it can shrink anything
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".ppm")


def _by_rows(source: str, count: int, grain: int) -> tuple[Piece, ...]:
    return tuple(Piece(source, a, min(a + grain, count), min(grain, count - a)) for a in range(0, count, grain))


@dataclass(frozen=True, kw_only=True)
class Idx(Dataset):
    """A pair of idx files; use :func:`idx` to make one. Rows are counted, not bytes, when cutting Splits."""

    images: str = ""
    classes: str = ""
    shape: tuple[int, ...] = ()
    count: int = 0
    split_cost: int = 1 << 14

    @property
    def schema(self) -> Schema:
        """``x`` float32 in [0, 1], ``y`` the class."""
        return Schema.of(dense("x", shape=self.shape), label("y"))

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Cut the rows into ranges."""
        return _by_rows(self.images, self.count, grain)

    def marks(self) -> dict[str, Any]:
        """Return names, sizes and times of the files."""
        return file_marks((self.images, self.classes))

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start reading ranges."""
        return ChunkSource(usable_chunks(self._chunks(pieces), self.schema, self.labels, bad))

    def _chunks(self, pieces: tuple[Piece, ...]) -> Iterator[Located]:
        for piece in pieces:
            for a in range(piece.begin, piece.end, CHUNK):
                b = min(a + CHUNK, piece.end)
                pixels = _idx_rows(self.images, a, b).reshape((b - a, *self.shape))
                target = _idx_rows(self.classes, a, b).astype(np.float32)
                yield Located(self.images, a, {"x": pixels.astype(np.float32) / 255, "y": target})


def _idx_header(path: str) -> tuple[tuple[int, ...], int]:
    """Return the shape and the position of the first element."""
    with open_bytes(path) as file:
        head = file.read_exactly(4)
        if len(head) < 4 or head[:3] != b"\0\0\x08":
            raise DataError(f"{path} is no idx file of bytes: it starts with {head!r}, not with 00 00 08")
        rest = file.read_exactly(4 * head[3])
    if not head[3] or len(rest) < 4 * head[3]:
        raise DataError(f"{path} is no idx file: its header says {head[3]} dimensions and ends after {len(rest)} bytes")
    shape: tuple[int, ...] = struct.unpack(f">{head[3]}I", rest)
    if math.prod(shape) > size_of(path) * (_GZIP if is_compressed(path) else 1):
        raise DataError(f"{path} is incomplete or damaged: its header promises an array of {'x'.join(map(str, shape))}")
    return shape, 4 + 4 * head[3]


def _idx_rows(path: str, a: int, b: int) -> npt.NDArray[np.uint8]:
    shape, first = _idx_header(path)
    width = math.prod(shape[1:])
    with open_bytes(path) as file:
        file.seek(first + a * width)
        raw = file.read_exactly((b - a) * width)
    if len(raw) != (b - a) * width:
        raise DataError(f"{path} ends at row {a + len(raw) // max(width, 1)} although its header promises {shape[0]}")
    return np.frombuffer(raw, np.uint8).reshape((b - a, *shape[1:]))


def idx(images: str | os.PathLike[str], labels: str | os.PathLike[str], *, flat: bool = False, **options: Any) -> Idx:
    """Read MNIST-like idx files: ``x`` ``[n, height, width, 1]`` (or flat) in [0, 1], ``y`` the class.

    Parameters
    ----------
    images, labels
        The two files; ``.gz`` works.
    flat
        Whether a row of ``x`` is one dimension.
    **options
        Fields of :class:`~heterps.data.core.dataset.Dataset`.
    """
    shape, _ = _idx_header(os.fspath(images))
    one, _ = _idx_header(os.fspath(labels))
    if len(one) != 1:
        raise DataError(f"{labels} holds an array of shape {one}: expected one label an image")
    count = one[0]
    if shape[0] != count:
        raise DataError(f"{images} holds {shape[0]} images but {labels} holds {count} labels")
    row = (math.prod(shape[1:]),) if flat else (*shape[1:], 1)
    return Idx(images=os.fspath(images), classes=os.fspath(labels), shape=row, count=count, **options)


@dataclass(frozen=True, kw_only=True)
class Images(Dataset):
    """A folder of image folders; use :func:`image_folder` to make one."""

    folder: str = ""
    classes: tuple[str, ...] = ()
    size: tuple[int, int] = (32, 32)
    split_cost: int = 1 << 12

    @property
    def schema(self) -> Schema:
        """``x`` float32 ``[n, height, width, 3]`` in [0, 1], ``y`` the number of the class."""
        return Schema.of(dense("x", shape=(*self.size, 3)), label("y"))

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Cut the sorted list of files into ranges."""
        return _by_rows(self.folder, len(_files(self.folder, self.classes)), grain)

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start decoding files."""
        return ChunkSource(usable_chunks(self._chunks(pieces, bad), self.schema, self.labels, bad))

    def _chunks(self, pieces: tuple[Piece, ...], bad: BadRows) -> Iterator[Located]:
        files, done = _files(self.folder, self.classes), 0
        for piece in pieces:
            for a in range(piece.begin, piece.end, CHUNK):
                columns = self._decode(files, range(a, min(a + CHUNK, piece.end)), bad, done)
                done += len(columns["y"])
                yield Located(self.folder, a, columns)

    def _decode(self, files: tuple[tuple[str, int], ...], rows: range, bad: BadRows, done: int) -> Columns:
        pixels: list[npt.NDArray[np.float32]] = []
        targets: list[int] = []
        for row in rows:
            path, number = files[row]
            try:
                pixels.append(_decode(path, self.size))
                targets.append(number)
            except Exception as error:  # decoders of broken images raise whatever they stumble over
                detail = f"cannot be decoded: {error}"[:200]
                bad.add(BadRow(path, row + 1, row, detail, "", done + len(targets)), "cannot be decoded")
        empty = np.empty((0, *self.size, 3), np.float32)
        return {"x": np.stack(pixels) if pixels else empty, "y": np.array(targets, np.float32)}


def _decode(path: str, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    pillow = _pillow()
    with pillow.open(path) as image:
        colour = image.convert("RGB")
        if colour.size != (size[1], size[0]):
            colour = colour.resize((size[1], size[0]))
        pixels: npt.NDArray[np.float32] = np.asarray(colour, np.float32)
    return pixels * np.float32(1 / 255)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise DataError("reading images needs Pillow: pip install 'heterps[images]'") from None
    return Image


@lru_cache(maxsize=16)
def _files(folder: str, classes: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Return all (path, class number), in an order that mixes the classes, so that one Split holds several."""
    found: list[tuple[str, int, int]] = []
    for number, name in enumerate(classes):
        names = sorted(f for f in os.listdir(os.path.join(folder, name)) if f.lower().endswith(SUFFIXES))
        found += [(os.path.join(folder, name, file), number, i) for i, file in enumerate(names)]
    return tuple((path, number) for path, number, _ in sorted(found, key=lambda item: (item[2], item[1])))


def image_folder(folder: str | os.PathLike[str], *, size: tuple[int, int] = (32, 32), **options: Any) -> Images:
    """Read images from one subfolder a class (needs Pillow: ``pip install 'heterps[images]'``).

    Parameters
    ----------
    folder
        Holds a folder for each class; classes are numbered in the order of their sorted names.
    size
        Height and width of ``x``; other images are resized.
    **options
        Fields of :class:`~heterps.data.core.dataset.Dataset`.
    """
    path = os.fspath(folder)
    if not os.path.isdir(path):
        raise DataError(f"no such folder: {path}")
    classes = tuple(sorted(item.name for item in os.scandir(path) if item.is_dir()))
    if not classes:
        raise DataError(f"{path} holds no subfolders: expected one for each class of images")
    return Images(folder=path, classes=classes, size=size, **options)
