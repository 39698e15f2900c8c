"""What an exported model says about itself: ``export.json``, sealed, with the hash of every file beside it.

An export is a folder of numbered generations. One of kind ``full`` or ``base`` stands alone; ``changes`` and ``delta``
hold rows that replace those of the generation they follow, and ids that have none any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from heterps.data.core.data_form import DataForm
from heterps.errors import CheckpointError
from heterps.graph import Graph
from heterps.tables.snapshots.disk import guarded, read_small, write_bytes
from heterps.tables.snapshots.manifest import StoredFile
from heterps.tables.snapshots.sealed import seal_of, sealed, unsealed

__all__ = [
    "DENSE",
    "NAME",
    "ONNX",
    "STANDING",
    "Encoding",
    "Export",
    "ExportKind",
    "FileFormat",
    "Followed",
    "Origin",
    "exports_of",
    "links_to",
    "newest",
]

NAME = "export.json"
_FORMAT = "heterps-export/1"

ExportKind = Literal["full", "changes", "delta", "base"]
FileFormat = Literal["arrow", "parquet"]
Encoding = Literal["float32", "float16", "int8"]
#: Kinds that build on nothing.
STANDING = ("full", "base")
#: Group names of files that hold no rows: dense parameters, and the dense part as ONNX.
DENSE, ONNX = "dense parameters", "onnx"


@dataclass(frozen=True)
class Followed:
    """The generation that an export builds on: its name and the seal of its manifest."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Origin:
    """The snapshot that an export was made of: the hash of its manifest, and how many pushes were in it."""

    sha256: str
    version: int


@dataclass(frozen=True)
class Export:
    """One generation of an exported model.

    Parameters
    ----------
    kind
        ``full``: all rows. ``changes``: exactly what changed since the one it follows. ``base``, ``delta``: the rows
        that the tables' accessors select, as the vendors' saves of that name do.
    graph, form
        The model, and how rows become batches (None where it was trained on ready-made columns).
    format, encoding
        How files hold rows, and how rows hold numbers.
    shards
        Logical shards by row group: a file holds the ids of some of them.
    files
        Rows by group, deleted ids, dense parameters, ONNX.
    onnx
        Why there is no ONNX file; empty where there is one.
    """

    kind: ExportKind
    graph: Graph
    form: DataForm | None
    format: FileFormat
    encoding: Encoding
    shards: Mapping[str, int]
    files: tuple[StoredFile, ...]
    origin: Origin
    follows: Followed | None = None
    onnx: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain data."""
        return {
            "format": _FORMAT,
            "kind": self.kind,
            "rows": {"format": self.format, "encoding": self.encoding, "shards": dict(self.shards)},
            "origin": asdict(self.origin),
            "follows": None if self.follows is None else asdict(self.follows),
            "files": [asdict(file) for file in self.files],
            "onnx": self.onnx,
            "about": dict(self.about),
            "data": None if self.form is None else self.form.to_json(),
            "graph": self.graph.to_json(),
        }

    @property
    def sha256(self) -> str:
        """The seal, by which what follows names it."""
        return seal_of(self.to_json())

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.files)

    def files_of(self, group: str) -> tuple[StoredFile, ...]:
        """Return the files of a group."""
        return tuple(file for file in self.files if file.group == group)

    def write(self, folder: Path) -> None:
        """Write the manifest; it comes last, so a folder with one is whole."""
        write_bytes(folder / NAME, sealed(self.to_json()).encode())

    @classmethod
    def read(cls, folder: Path) -> Export:
        """Read the manifest of a generation, or say what is wrong with it."""
        path = folder / NAME
        value = unsealed(path, read_small(path), _FORMAT)
        with guarded(path):
            return cls._from_json(value, path)

    @classmethod
    def _from_json(cls, value: dict[str, Any], path: Path) -> Export:
        rows = value["rows"]
        for word, known in ((value["kind"], ExportKind), (rows["format"], FileFormat), (rows["encoding"], Encoding)):
            if word not in get_args(known):
                raise CheckpointError(f"{path} says {word!r}, which is none of {', '.join(get_args(known))}")
        files = tuple(StoredFile(**file) for file in value["files"])
        for file in files:
            file.check()
        return cls(
            value["kind"],
            Graph.from_json(value["graph"]),
            None if value["data"] is None else DataForm.from_json(value["data"]),
            rows["format"],
            rows["encoding"],
            {str(name): _shards(n) for name, n in rows["shards"].items()},
            files,
            Origin(**value["origin"]),
            None if value["follows"] is None else Followed(**value["follows"]),
            str(value["onnx"]),
            dict(value["about"]),
        )


def _shards(value: Any) -> int:
    if type(value) is not int or not 0 < value <= 1 << 24:
        raise CheckpointError(f"an export has {value!r} logical shards")
    return value


def exports_of(root: Path) -> list[Path]:
    """Return the finished generations of an exported model, oldest first."""
    if not root.is_dir():
        return []
    found = [path for path in root.iterdir() if _is_number(path.name) and not path.is_symlink()]
    return sorted((path for path in found if (path / NAME).is_file()), key=lambda path: int(path.name))


def newest(path: Path) -> Path:
    """Return the generation meant by a path: itself, or the newest below it."""
    if (path / NAME).is_file():
        return path
    found = exports_of(path)
    if not found:
        there = sorted(p.name for p in path.iterdir())[:8] if path.is_dir() else []
        raise CheckpointError(
            f"{path} is no exported model: it has {', '.join(there) or 'nothing'}; write one with session.export(PATH) "
            "or `heterps export MODEL PATH`"
        )
    return found[-1]


def links_to(folder: Path) -> Iterator[tuple[Path, Export]]:
    """Yield a generation and, one after another, those it builds on; raise if one is missing or another."""
    export = Export.read(folder)
    yield folder, export
    while export.follows is not None:
        follows, above = export.follows, folder
        folder = above.parent / follows.name
        if not _is_number(follows.name) or (_is_number(above.name) and int(follows.name) >= int(above.name)):
            raise CheckpointError(f"{above / NAME} is damaged: it follows {follows.name!r}")
        if not (folder / NAME).is_file():
            raise CheckpointError(f"{above} builds on {folder}, which is not there; export the model in full again")
        export = Export.read(folder)
        if export.sha256 != follows.sha256:
            raise CheckpointError(f"{above} builds on another export than the one in {folder}")
        yield folder, export


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()
