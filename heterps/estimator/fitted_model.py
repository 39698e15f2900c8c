"""The trained model of an estimator: a session that is open, or the snapshot of one that came out of a pickle."""

from __future__ import annotations

import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from heterps.errors import RunError
from heterps.launching import load
from heterps.session import Session
from heterps.writing import write_whole

__all__ = ["FittedModel"]


class FittedModel:
    """Holds the tables from ``fit`` until it is closed or nobody has it any more.

    A pickle has the files of a snapshot, as bytes: they are read with all the checks of a saved model, and nothing in
    them is unpickled.

    Parameters
    ----------
    session
        The one that trained.
    """

    def __init__(self, session: Session) -> None:
        self._files: dict[str, bytes] = {}
        self._session: Session | None = None
        self._ending: Any = None
        self._hold(session)

    def _hold(self, session: Session) -> None:
        self._session, self._files = session, {}
        self._ending = weakref.finalize(self, _close, session)

    @property
    def session(self) -> Session:
        """The open session; that of a pickled model is opened here, without a cluster."""
        if self._session is None:
            if not self._files:
                raise RunError("the model was closed and its tables are gone: fit again")
            with tempfile.TemporaryDirectory(prefix="heterps-model-") as folder:
                for name, content in self._files.items():
                    file = Path(folder, name)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(file, content)
                self._hold(load(folder, engine="inline", metrics=[]))
        assert self._session is not None
        return self._session

    def files(self) -> dict[str, bytes]:
        """Return a snapshot: content by path."""
        if self._session is None:
            return self._files
        with tempfile.TemporaryDirectory(prefix="heterps-model-") as folder:
            self._session.save(folder)
            found = sorted(
                file for file in Path(folder).rglob("*") if file.is_file() and not file.name.endswith("lock")
            )
            return {str(file.relative_to(folder)): file.read_bytes() for file in found}

    def close(self) -> None:
        """Give the tables back."""
        if self._ending is not None:
            self._ending()
        self._session, self._files = None, {}

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._files, self._session, self._ending = state["files"], None, None


def _close(session: Session) -> None:
    with suppress(Exception):  # of a cluster that is gone, or at the end of the process
        session.close()
