"""From a saved model to an exported one: which snapshots are read, what is written, in which generation.

An exported model is a folder of numbered generations (:mod:`heterps.serving.manifest`). Each is written under another
name and renamed when it is whole, so that who reads the newest one never meets half of it.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from heterps.errors import CheckpointError, GraphError
from heterps.export.onnx_graph import dense_to_onnx
from heterps.export.row_writing import RowWriter, dense_of, write_deleted, write_dense, write_rows
from heterps.runtime.cuts.folder_lock import FolderLock
from heterps.runtime.cuts.saved_model import SavedModel, made_folder
from heterps.runtime.cuts.saving import snapshot_folder
from heterps.serving.manifest import (
    ONNX,
    STANDING,
    Encoding,
    Export,
    ExportKind,
    FileFormat,
    Followed,
    Origin,
    exports_of,
    links_to,
)
from heterps.tables.snapshots.chain import Chain, find_generation
from heterps.tables.snapshots.disk import HashedFile, remove_tree, rename_folder
from heterps.tables.snapshots.manifest import Manifest, StoredFile
from heterps.tables.snapshots.snapshot import Generation, Snapshots
from heterps.version import __version__
from heterps.writing import check_folder

__all__ = ["export_model"]

_log = logging.getLogger("heterps")
_UNFINISHED = ".unfinished-"
_KEEP = 2  # generations, and what they build on: who still reads the one before goes on
AnyPath = str | os.PathLike[str]
Onnx = Literal["auto", "yes", "no"]


def export_model(
    model: AnyPath,
    out: AnyPath,
    *,
    kind: ExportKind = "full",
    format: FileFormat | None = None,
    rows: Encoding | None = None,
    onnx: Onnx = "auto",
) -> Path:
    """Export a saved model; return the folder of the new generation.

    Parameters
    ----------
    model
        What ``session.save`` or ``heterps train --out`` wrote.
    out
        Folder of the exported model; made if it is missing. Two generations stay there, with what they build on.
    kind
        ``"full"``: all rows. ``"changes"``: exactly what changed since the newest export there, if the snapshots since
        then were saved with ``kind="changes"``; else everything. ``"base"``: the newest base save. ``"delta"``: the
        delta saves since the newest export.
    format
        Of rows: ``"arrow"`` (mapped by :class:`~heterps.serving.predictor.Predictor`) or ``"parquet"``. By default that
        of the export it builds on, else Arrow.
    rows
        ``"float32"``, ``"float16"``, or ``"int8"`` with a factor for each row; by default as before, else float32.
    onnx
        Whether the dense part is written as ONNX too; by default where the package is there and every op has a meaning
        in ONNX.
    """
    _check_words(kind, format, rows, onnx)
    model, out = Path(model), check_folder(out)
    saved = SavedModel.read(model)
    with FolderLock(made_folder(out)):
        before = None if kind in STANDING else _newest(out)  # what stands alone can also replace what is broken
        source = _source(model, kind, before)
        if not source.chain.links:
            assert before is not None
            _log.info("%s: nothing changed since %s", model, before[0])
            return before[0]
        follows = before if source.kind not in STANDING else None
        format = format or (follows[1].format if follows else "arrow")
        rows = rows or (follows[1].encoding if follows else "float32")
        return _write(out, saved, source, follows, format, rows, onnx)


def _check_words(kind: str, format_: str | None, rows: str | None, onnx: str) -> None:
    for name, word, known in (
        ("kind", kind, get_args(ExportKind)),
        ("format", format_, (None, *get_args(FileFormat))),
        ("rows", rows, (None, *get_args(Encoding))),
        ("onnx", onnx, get_args(Onnx)),
    ):
        if word not in known:
            raise CheckpointError(f"{name} of an export is one of {', '.join(map(str, known))}, not {word!r}")


def _newest(out: Path) -> tuple[Path, Export] | None:
    found = exports_of(out)
    return (found[-1], Export.read(found[-1])) if found else None


@dataclass(frozen=True)
class _Source:
    """What is read: snapshots, newest first, and of what kind an export they make."""

    kind: ExportKind
    chain: Chain


def _source(model: Path, kind: ExportKind, before: tuple[Path, Export] | None) -> _Source:
    if kind == "base":
        return _Source(kind, Chain(find_generation(model / "base")))
    if kind == "delta":
        return _Source(kind, Chain.of(_deltas(model, before)))
    chain = Chain(find_generation(snapshot_folder(model)))
    if kind == "changes" and before is not None:
        since = _since(chain, before[1].origin.sha256)
        if since is not None:
            return _Source(kind, Chain.of(since))
    if kind == "changes":
        _log.info("%s has no changes to the newest export: everything is exported, later what changed", model)
    return _Source("full", chain)


def _since(chain: Chain, sha256: str) -> tuple[Generation, ...] | None:
    """Return the snapshots after one, newest first; None if it is not among them or rows went without being named."""
    hashes = [link.manifest.sha256 for link in chain.links]
    newer = chain.links[: hashes.index(sha256)] if sha256 in hashes else None
    return None if newer is None or any(link.manifest.whole for link in newer) else newer


def _deltas(model: Path, before: tuple[Path, Export] | None) -> list[Generation]:
    if before is None:
        raise CheckpointError("a delta replaces rows of an export: export kind 'full' or 'base' there first")
    found = [Generation(path, Manifest.read(path)) for path in Snapshots(model / "delta").generations()]
    newer = [each for each in reversed(found) if each.manifest.version > before[1].origin.version]
    if not newer:
        raise CheckpointError(
            f"{model} has no delta save newer than {before[0]}: it has {len(found)}; save with kind='delta' first"
        )
    return newer


def _write(
    out: Path,
    saved: SavedModel,
    source: _Source,
    follows: tuple[Path, Export] | None,
    format_: FileFormat,
    encoding: Encoding,
    onnx: Onnx,
) -> Path:
    for path in out.glob(f"{_UNFINISHED}*"):
        remove_tree(path)
    folder = out / f"{_UNFINISHED}{os.getpid()}-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    try:
        manifest, dense = source.chain.manifest, dense_of(source.chain)
        writer = RowWriter(folder, format_, encoding)
        files = [*_rows(writer, source), write_dense(writer, dense)]
        onnx_file, why = _onnx(folder, saved, dense, onnx)
        export = Export(
            source.kind,
            saved.graph,
            saved.form,
            format_,
            encoding,
            {group.name: group.n_shards for group in manifest.groups},
            (*files, *onnx_file),
            Origin(manifest.sha256, manifest.version),
            None if follows is None else Followed(follows[0].name, follows[1].sha256),
            why,
            {"heterps": __version__},
        )
        export.write(folder)
        return _published(out, folder)
    except BaseException:
        remove_tree(folder)
        raise


def _rows(writer: RowWriter, source: _Source) -> list[StoredFile]:
    files: list[StoredFile] = []
    for number, spec in enumerate(source.chain.manifest.groups):
        made, ids = write_rows(writer, number, spec, source.chain)
        files += made
        if source.kind == "changes":
            files += write_deleted(writer, number, spec, source.chain, ids)
    return files


def _onnx(folder: Path, saved: SavedModel, dense: Mapping[str, Any], wanted: Onnx) -> tuple[list[StoredFile], str]:
    """Write the dense part as ONNX; return the file, or why there is none."""
    if wanted == "no":
        return [], "it was not wanted"
    try:
        data = dense_to_onnx(saved.graph, dense)
    except (ImportError, GraphError) as error:
        if wanted == "yes":
            raise
        _log.info("the export has no ONNX file: %s", error)
        return [], str(error)
    with HashedFile(folder / "dense.onnx") as file:
        file.write(data)
    return [StoredFile(file.path.name, ONNX, 0, 0, 0, file.size, file.sha256)], ""


def _published(out: Path, folder: Path) -> Path:
    """Give a finished generation its number; delete those that nobody needs any more."""
    found = exports_of(out)
    target = out / f"{1 + max((int(path.name) for path in found), default=0):08d}"
    rename_folder(folder, target)
    kept = [*found, target][-_KEEP:]
    needed = {path for each in kept for path in _builds_on(each)}
    for old in reversed(found):
        if old not in needed:
            remove_tree(old)
    return target


def _builds_on(folder: Path) -> list[Path]:
    """Return a generation and all below it, as far as they can be read."""
    found = [folder]
    with suppress(CheckpointError):
        found += [path for path, _ in links_to(folder)]
    return found
