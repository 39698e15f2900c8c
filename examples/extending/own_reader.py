"""A reader of your own: folders of ``.npz`` files, each with arrays ``ids``, ``x`` and ``y``.

A reader says what columns a batch has, cuts the data into pieces without reading rows, and yields the rows of a piece
as arrays. Splits, shuffling, resuming at any batch, bad rows and reading ahead come with the base class.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from heterps.data import Chunked, Piece, Schema, dense, expand, label, register_reader, size_of, sparse
from heterps.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Npz(Chunked):
    """Files of NumPy arrays; use :func:`npz` to make one."""

    paths: tuple[str, ...] = ()
    fields: Schema = field(default_factory=Schema)

    @property
    def schema(self):
        """The columns of a batch."""
        return self.fields

    def pieces(self, grain):
        """Return one piece a file: a compressed archive is read from its beginning."""
        return tuple(Piece(path, 0, -1, size_of(path)) for path in self.paths)

    def chunks(self, piece):
        """Yield the rows of a file at once."""
        with np.load(piece.source) as found:
            yield {name: found[name] for name in self.fields.names}


def npz(paths, **options):
    """Look into the first file for the shapes, and read all of them."""
    files = expand(paths)
    with np.load(files[0]) as found:
        lacking = {"ids", "x", "y"} - set(found.files)
        if lacking:
            raise DataError(f"{files[0]} has no array {sorted(lacking)[0]!r}; it has {', '.join(found.files)}")
        ids, x = sparse("ids", shape=found["ids"].shape[1:]), dense("x", shape=found["x"].shape[1:])
    return Npz(paths=files, fields=Schema.of(ids, x, label("y")), **options)


register_reader("npz", npz, suffixes=["npz"])
