"""What a saved model says about itself: enough to launch it again without the program that made it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heterps.data.core.data_form import DataForm
from heterps.errors import CheckpointError
from heterps.graph import Graph
from heterps.runtime.batch.job import Job
from heterps.runtime.cuts.folder_lock import FolderLock
from heterps.tables import RULES, Rule
from heterps.tables.snapshots.disk import guarded, read_small
from heterps.tables.snapshots.sealed import sealed, unsealed
from heterps.writing import check_folder, write_whole

__all__ = ["SavedModel", "begun", "made_folder"]

_FORMAT = "heterps-model/2"
_NAME = "model.json"


@dataclass(frozen=True)
class SavedModel:
    """Graph, rules and settings of a job and the form of its data, as plain JSON beside its tables."""

    graph: Graph
    sparse: Rule
    dense: Rule
    seed: int
    batch_size: int
    mode: dict[str, Any]
    form: DataForm | None = None

    @classmethod
    def of(cls, job: Job, form: DataForm | None = None) -> SavedModel:
        """Describe a job and the data it was trained on."""
        model = job.model
        return cls(model.graph, model.sparse, model.dense, model.seed, job.batch_size, job.mode.to_json(), form)

    def write(self, folder: Path) -> None:
        """Write ``model.json``, whole or not at all."""
        value = {
            "format": _FORMAT,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "mode": self.mode,
            "sparse": self.sparse.to_json(),
            "dense": self.dense.to_json(),
            **({} if self.form is None else {"data": self.form.to_json()}),
            "graph": self.graph.to_json(),
        }
        write_whole(made_folder(folder) / _NAME, sealed(value))

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether a folder has one."""
        return (folder / _NAME).is_file()

    @classmethod
    def read(cls, folder: Path) -> SavedModel:
        """Read ``model.json`` of a folder, or say what is there instead."""
        path = folder / _NAME
        if not cls.is_in(folder):
            raise CheckpointError(f"{folder} is not a saved model: {_instead(folder)}")
        value = unsealed(path, read_small(path), _FORMAT)
        with guarded(path):
            return cls(
                Graph.from_json(value["graph"]),
                RULES.from_json(value["sparse"]),
                RULES.from_json(value["dense"]),
                value["seed"],
                value["batch_size"],
                value["mode"],
                DataForm.from_json(value["data"]) if "data" in value else None,
            )


def begun(job: Job, folder: Path, form: DataForm | None = None) -> FolderLock:
    """Take a folder for the cuts of a run, before anything is started for it."""
    check_folder(folder)
    lock = FolderLock(made_folder(folder))
    try:
        SavedModel.of(job, form).write(folder)
    except BaseException:
        lock.close()
        raise
    return lock


def made_folder(folder: Path) -> Path:
    """Make a folder where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make the folder {folder}: {error.strerror}") from error
    return folder


def _instead(folder: Path) -> str:
    if not folder.exists():
        near = sorted(path.name for path in folder.parent.iterdir()) if folder.parent.is_dir() else []
        return f"it does not exist; {folder.parent} has {', '.join(near[:8]) or 'nothing'}"
    if not folder.is_dir():
        return "it is a file, expected the folder that session.save or `heterps train --out` wrote"
    return f"it has no {_NAME}; it has {', '.join(sorted(p.name for p in folder.iterdir())[:8]) or 'nothing'}"
