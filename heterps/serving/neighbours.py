"""The nearest vectors to a vector: items for a user. An exact search over mapped vectors, or an approximate index.

A folder holds ``vectors.arrow`` (ids and vectors), where wanted ``approximate.usearch`` (a graph of neighbours that the
package usearch built), and ``neighbours.json``, sealed, with the hash of both.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.errors import CheckpointError, DataError
from heterps.serving.row_files import columns_of
from heterps.tables.snapshots.disk import (
    HashedFile,
    guarded,
    read_checked,
    read_small,
    remove_tree,
    rename_folder,
    write_bytes,
)
from heterps.tables.snapshots.manifest import StoredFile
from heterps.tables.snapshots.sealed import sealed, unsealed
from heterps.writing import check_folder

__all__ = ["Likeness", "Neighbours"]

_FORMAT, _NAME = "heterps-neighbours/1", "neighbours.json"
_VECTORS, _GRAPH = "vectors.arrow", "approximate.usearch"
_METRICS = {"dot": "ip", "cosine": "cos"}
_BLOCK = 1 << 24  # numbers of a block of scores: a search takes no more memory than some of them
Likeness = Literal["dot", "cosine"]
Floats = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]


class Neighbours:
    """Vectors with ids, searched by their dot products or cosines with others.

    Parameters
    ----------
    path
        The folder that :meth:`build` wrote.
    approximate
        Whether to search the approximate index (the package usearch, from the extra ``neighbours``) instead of all.

    Examples
    --------
    >>> films = Neighbours.build("films/", ids, vectors)  # doctest: +SKIP
    >>> ids, scores = films.search(predictor(users, "user_vector"), 20)  # doctest: +SKIP
    """

    def __init__(self, path: str | os.PathLike[str], *, approximate: bool = False) -> None:
        self.folder = Path(path)
        file = self.folder / _NAME
        if not file.is_file():
            raise CheckpointError(f"{self.folder} has no {_NAME}: write one with `heterps neighbours build`")
        value = unsealed(file, read_small(file), _FORMAT)
        with guarded(file):
            self.likeness: Likeness = value["likeness"]
            if self.likeness not in get_args(Likeness):
                raise CheckpointError(f"{file}: likeness is dot or cosine, not {self.likeness!r}")
            dim = int(value["dim"])
            files = {each["name"]: StoredFile(**each) for each in value["files"]}
            for each in files.values():
                each.check()
        wanted = {"id": (np.uint64, None), "vector": (np.float32, dim)}
        columns = columns_of(self.folder, files[_VECTORS], wanted, "arrow")
        self.ids: U64 = columns["id"]
        self.vectors: Floats = columns["vector"]
        self._index = _opened(self.folder, files.get(_GRAPH), dim, self.likeness) if approximate else None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return int(self.vectors.shape[1])

    @classmethod
    def build(
        cls,
        path: str | os.PathLike[str],
        ids: Any,
        vectors: Any,
        *,
        likeness: Likeness = "dot",
        approximate: bool = False,
    ) -> Neighbours:
        """Write vectors to a folder, which must not exist, and open it.

        Parameters
        ----------
        path
            The folder.
        ids, vectors
            uint64, each once, and float32 ``[n, dim]``.
        likeness
            ``"dot"`` or ``"cosine"``.
        approximate
            Whether to build the approximate index too.
        """
        target, found, rows = check_folder(path), *_checked(ids, vectors)
        if likeness not in get_args(Likeness):
            raise DataError(f"likeness is dot or cosine, not {likeness!r}")
        if target.exists():
            raise CheckpointError(f"{path} exists: name a new folder, or remove that one")
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = target.parent / f".unfinished-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        try:
            files = [_write_vectors(folder, found, rows)]
            files += [_write_graph(folder, rows, likeness)] if approximate else []
            value = {"format": _FORMAT, "likeness": likeness, "dim": rows.shape[1], "files": [asdict(f) for f in files]}
            write_bytes(folder / _NAME, sealed(value).encode())
            rename_folder(folder, target)
        except BaseException:
            remove_tree(folder)
            raise
        return cls(target, approximate=approximate)

    def search(self, vectors: Any, k: int, *, without: Any = None) -> tuple[U64, Floats]:
        """Return the ids of the k most alike to each vector, best first, and their scores; of equals the first stored.

        Parameters
        ----------
        vectors
            ``[n, dim]``, or one vector.
        k
            How many; all where there are fewer.
        without
            For each vector ids that are not to be found, such as films seen already (exact search only).
        """
        asked = np.atleast_2d(np.asarray(vectors, np.float32))
        if asked.ndim != 2 or asked.shape[1] != self.dim:
            raise DataError(f"vectors have shape {np.shape(vectors)}, those of {self.folder} have {self.dim} numbers")
        if k < 1:
            raise DataError(f"k is {k}, must be at least 1")
        k = min(k, len(self))
        if self._index is not None:
            if without is not None:
                raise DataError("ids can be left out by the exact search only")
            return self._approximate(asked, k)
        step = max(1, _BLOCK // max(1, len(self)))
        parts = [self._exact(asked[at : at + step], k, None if without is None else without[at : at + step])
                 for at in range(0, len(asked), step)]  # fmt: skip
        return np.concatenate([ids for ids, _ in parts]), np.concatenate([scores for _, scores in parts])

    def _exact(self, asked: Floats, k: int, without: Any) -> tuple[U64, Floats]:
        scores = _unit(asked, self.likeness) @ _unit(self.vectors, self.likeness).T
        for row, ids in enumerate(without if without is not None else ()):
            scores[row, np.isin(self.ids, np.asarray(ids, np.uint64))] = -np.inf
        # A stable order makes an answer a function of the vectors alone.
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return self.ids[order], np.take_along_axis(scores, order, axis=1)

    def _approximate(self, asked: Floats, k: int) -> tuple[U64, Floats]:
        places = np.atleast_2d(self._index.search(asked, k).keys).astype(np.intp)  # type: ignore[union-attr]
        near = _unit(self.vectors[places], self.likeness)
        scores = np.einsum("nkd,nd->nk", near, _unit(asked, self.likeness))
        order = np.argsort(-scores, axis=1, kind="stable")
        return self.ids[np.take_along_axis(places, order, axis=1)], np.take_along_axis(scores, order, axis=1)


def _unit(vectors: Floats, likeness: Likeness) -> Floats:
    if likeness == "dot":
        return vectors
    length: Floats = np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True))
    return np.asarray(vectors / np.maximum(length, np.float32(1e-30)), np.float32)


def _checked(ids: Any, vectors: Any) -> tuple[U64, Floats]:
    found, rows = np.asarray(ids), np.ascontiguousarray(vectors, np.float32)
    if found.dtype.kind not in "iu" or (found.dtype.kind == "i" and (found < 0).any()):
        raise DataError(f"ids of vectors are whole numbers from 0 on, not {found.dtype}")
    if found.ndim != 1 or rows.ndim != 2 or len(found) != len(rows) or not rows.size:
        raise DataError(f"there are ids of shape {found.shape} for vectors of shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise DataError("some vectors have numbers that are not finite")
    if len(np.unique(found)) != len(found):
        raise DataError("an id stands there twice: each has one vector")
    return found.astype(np.uint64), rows


def _write_vectors(folder: Path, ids: U64, rows: Floats) -> StoredFile:
    element = pa.field("element", pa.float32(), nullable=False)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), type=pa.list_(element, rows.shape[1]))
    schema = pa.schema([pa.field("id", pa.uint64(), False), pa.field("vector", lists.type, False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([pa.array(ids), lists], schema=schema))
    with HashedFile(folder / _VECTORS) as file:
        file.write(sink.getvalue())
    return StoredFile(_VECTORS, "vectors", 0, 0, len(ids), file.size, file.sha256)


def _write_graph(folder: Path, rows: Floats, likeness: Likeness) -> StoredFile:
    index = _package().Index(ndim=rows.shape[1], metric=_METRICS[likeness], dtype="f32")
    index.add(np.arange(len(rows)), rows)
    with HashedFile(folder / _GRAPH) as file:
        file.write(bytes(index.save()))
    return StoredFile(_GRAPH, "approximate", 0, 0, len(rows), file.size, file.sha256)


def _opened(folder: Path, file: StoredFile | None, dim: int, likeness: Likeness) -> Any:
    """Open an approximate index whose bytes are those that were written: its reader would believe them anyway."""
    if file is None:
        raise CheckpointError(f"{folder} has no approximate index: build it with approximate=True, or search exactly")
    path = folder / file.name
    data = read_checked(path, file.sha256, file.size)
    index = _package().Index(ndim=dim, metric=_METRICS[likeness], dtype="f32")
    with guarded(path):
        index.load(bytes(data))
    if len(index) != file.rows or index.ndim != dim:
        raise CheckpointError(
            f"{path} is damaged: it has {len(index)} vectors of {index.ndim}, not {file.rows} of {dim}"
        )
    return index


def _package() -> Any:
    try:
        from usearch import index
    except ImportError as error:
        raise ImportError(
            "an approximate index needs the package usearch: pip install 'heterps[neighbours]'"
        ) from error
    return index
