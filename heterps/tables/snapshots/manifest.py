"""The manifest of a snapshot: what it is, what it holds, and the hash of every file. Plain JSON, no pickle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from heterps.errors import CheckpointError, HeterpsError
from heterps.protocol import Window
from heterps.tables.snapshots.disk import guarded, read_small, write_bytes
from heterps.tables.specs.spec import DenseSpec, GroupSpec

__all__ = ["FORMAT", "NAME", "Follows", "Manifest", "SnapshotPart", "StoredFile", "deleted_of"]

#: Version of the snapshot format; a reader refuses any other.
FORMAT = 1
NAME = "manifest.json"


@dataclass(frozen=True)
class StoredFile:
    """One Parquet file: rows of logical shards ``first`` to ``last`` of a group, or the dense parameters of a host."""

    name: str
    group: str
    first: int
    last: int
    rows: int
    size: int
    sha256: str

    def check(self) -> None:
        """Refuse a name that leads out of the folder, and numbers that cannot be."""
        if not isinstance(self.name, str) or self.name in ("", ".", "..") or {"/", "\0", os.sep} & set(self.name):
            raise CheckpointError(f"a snapshot names the file {self.name!r}: its files lie in its own folder")
        numbers = (self.first, self.last, self.rows, self.size)
        if not all(_is_count(number) for number in numbers) or self.first > self.last:
            raise CheckpointError(f"a snapshot has impossible numbers for {self.name!r}: {numbers}")
        if not isinstance(self.group, str) or not isinstance(self.sha256, str):
            raise CheckpointError(f"a snapshot says nothing sensible about {self.name!r}")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _check_numbers(data: dict[str, Any]) -> None:
    """Check what later code computes with: plain numbers of the right kind."""
    counts = [data["seed"], data["version"]]
    for pass_, split, low, above in data["window"]:
        counts += [pass_, split, low + 1, *above]
    wrong = [value for value in counts if not _is_count(value)]
    if wrong or not isinstance(data["kind"], str) or not isinstance(data["position"], dict):
        raise CheckpointError(f"a snapshot has impossible values: {wrong[:3]}")


def deleted_of(group: str) -> str:
    """Return the group name of files with the deleted ids of a group."""
    return f"{group}/deleted"


@dataclass(frozen=True)
class Follows:
    """The snapshot that changes build on: the generation's name, its manifest's hash, the moment it shows."""

    name: str
    sha256: str
    moment: str


@dataclass(frozen=True)
class SnapshotPart:
    """What one shard host has written.

    ``partial`` if it has changes only; ``whole`` are logical shards, by group, of which changes hold all rows: what was
    saved of them before is void.
    """

    files: tuple[StoredFile, ...]
    version: int
    partial: bool = False
    whole: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the part as plain data."""
        files = [asdict(file) for file in self.files]
        whole = {name: list(shards) for name, shards in self.whole.items()}
        return {"files": files, "version": self.version, "partial": self.partial, "whole": whole}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SnapshotPart:
        """Inverse of :meth:`to_json`."""
        files = tuple(StoredFile(**file) for file in data["files"])
        return cls(files, data["version"], data["partial"], data["whole"])


@dataclass(frozen=True)
class Manifest:
    """A whole snapshot.

    Parameters
    ----------
    kind
        "checkpoint" (everything, resumes exactly), "changes" (all that changed since the snapshot it follows), "delta"
        or "base" (values to serve).
    window, version
        The ledger: batches that are in it; and how many pushes that is.
    position
        Where the data stood, as the engine describes it.
    moment
        The name under which shards remember when it was taken.
    follows, whole
        Of changes: what they build on, and logical shards by group of which they hold all rows.
    """

    kind: str
    seed: int
    groups: tuple[GroupSpec, ...]
    dense: tuple[DenseSpec, ...]
    files: tuple[StoredFile, ...]
    window: Window
    version: int
    position: Mapping[str, Any] = field(default_factory=dict)
    moment: str = ""
    follows: Follows | None = None
    whole: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The hash of its contents, by which changes name what they build on."""
        return str(self.to_json()["sha256"])

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain data, with its own hash."""
        body: dict[str, Any] = {
            "format": FORMAT,
            "kind": self.kind,
            "seed": self.seed,
            "groups": [group.to_json() for group in self.groups],
            "dense": [spec.to_json() for spec in self.dense],
            "files": [asdict(file) for file in self.files],
            "window": self.window.to_json(),
            "version": self.version,
            "position": dict(self.position),
            "moment": self.moment,
        }
        if self.follows is not None:
            body |= {"follows": asdict(self.follows), "whole": {k: list(v) for k, v in self.whole.items()}}
        return body | {"sha256": _digest(body)}

    def write(self, folder: Path) -> None:
        """Write the manifest; it comes last, so a folder with a manifest is whole."""
        write_bytes(folder / NAME, json.dumps(self.to_json(), indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return the manifest of a snapshot folder, or say what is wrong with it."""
        path = folder / NAME
        text = read_small(path)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is damaged: it is not JSON ({error})") from error
        with guarded(path):
            return cls._from_json(data, path)

    @classmethod
    def _from_json(cls, data: dict[str, Any], path: Path) -> Manifest:
        if data.get("format") != FORMAT:
            raise CheckpointError(f"{path} has snapshot format {data.get('format')!r}; this version reads {FORMAT}")
        if data.pop("sha256") != _digest(data):
            raise CheckpointError(f"{path} is damaged: its sha256 does not fit its contents")
        try:
            groups = tuple(GroupSpec.from_json(group) for group in data["groups"])
            dense = tuple(DenseSpec.from_json(spec) for spec in data["dense"])
        except HeterpsError as error:
            raise CheckpointError(f"{path}: {error}; import the module that registers it before loading") from error
        files = tuple(StoredFile(**file) for file in data["files"])
        for file in files:
            file.check()
        _check_numbers(data)
        window = Window.from_json(data["window"])
        follows = Follows(**data["follows"]) if "follows" in data else None
        more = (data["position"], data.get("moment", ""), follows, data.get("whole", {}))
        return cls(data["kind"], data["seed"], groups, dense, files, window, data["version"], *more)

    def group(self, name: str) -> GroupSpec:
        """Return the spec of a group that was saved."""
        for group in self.groups:
            if group.name == name:
                return group
        raise CheckpointError(f"the snapshot has no group {name!r}; it has {[group.name for group in self.groups]}")

    def files_of(self, group: str) -> tuple[StoredFile, ...]:
        """Return the files with rows of a group."""
        return tuple(file for file in self.files if file.group == group)

    def rows(self, group: str) -> int:
        """Return how many rows of a group were saved."""
        return sum(file.rows for file in self.files_of(group))


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
