"""Saving what was trained: hours of work are not thrown away because the disk they should go to is full."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heterps.errors import CheckpointError, RunError, UnsavedError
from heterps.session import Session

__all__ = ["kept_without_cut", "save_trained"]


def save_trained(session: Session, out: str) -> None:
    """Save the model to a folder; where that fails, to a new one elsewhere, which the error names."""
    try:
        session.save(out)
    except (CheckpointError, OSError) as error:
        raise RunError(f"{error}\n{_saved_elsewhere(session)}") from error


@contextmanager
def kept_without_cut(session: Session, out: str | None) -> Iterator[None]:
    """Save what was trained to the end although the last cut of it could not be written."""
    try:
        yield
    except UnsavedError as error:
        if not out:
            raise
        save_trained(session, out)
        raise RunError(f"{error}\nsaved to {out} what was trained") from error


def _saved_elsewhere(session: Session) -> str:
    for room in dict.fromkeys((Path.cwd(), Path(tempfile.gettempdir()))):
        try:
            folder = Path(tempfile.mkdtemp(prefix="heterps-model-", dir=room))
        except OSError:
            continue
        try:
            session.save(folder)
            return f"What was trained is saved to {folder} instead"
        except (CheckpointError, OSError):
            shutil.rmtree(folder, ignore_errors=True)
    return "What was trained is lost: it could be saved neither here nor in the folder for temporary files"
