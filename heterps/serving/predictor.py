"""``hps.Predictor``: an exported model that scores rows and changes to a newer export while it does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy.typing as npt

from heterps.errors import CheckpointError, GraphError
from heterps.serving.manifest import newest
from heterps.serving.needs import PREDICTION
from heterps.serving.served_model import Engine, ServedModel

__all__ = ["Predictor"]

Fetched = npt.NDArray[Any]
_TRIES = 5  # to open the newest generation: a newer one may take its place meanwhile


class Predictor:
    """Scores rows with an exported model: without Dask, and without compiling anything.

    Rows of tables are mapped from disk where they lie (format Arrow): starting reads next to nothing, and processes
    that serve one export share its memory. Any thread may call.

    Parameters
    ----------
    path
        What ``session.export`` or ``heterps export`` wrote; or one generation below it.
    engine
        What computes the dense part: ``"numpy"``, or ``"onnx"`` (onnxruntime, from the extra ``onnx``).
    verify
        Whether every byte is compared with its hash before the first answer, here and in :meth:`reload`. Sizes, forms
        and the manifest are checked in any case.

    Examples
    --------
    >>> predictor = Predictor("export/")  # doctest: +SKIP
    >>> predictor({"city": "Oslo", "age": 31})  # doctest: +SKIP
    array([0.31], dtype=float32)
    """

    def __init__(self, path: str | os.PathLike[str], engine: Engine = "numpy", *, verify: bool = False) -> None:
        self.path, self._engine, self._verify = Path(path), engine, verify
        self._changing = threading.Lock()
        self._model = self._opened()  # replaced whole; who has begun with one ends with it

    @property
    def model(self) -> ServedModel:
        """The state that answers are made by now."""
        return self._model

    @property
    def version(self) -> str:
        """The generation that answers are made by now."""
        return self._model.version

    def _opened(self) -> ServedModel:
        """Open the newest generation; one that was deleted under our hands gave way to a newer one."""
        for attempt in range(_TRIES):
            folder = newest(self.path)
            try:
                return ServedModel(folder, self._engine, verify=self._verify)
            except CheckpointError:
                if newest(self.path) == folder or attempt + 1 == _TRIES:
                    raise
                time.sleep(0.01)
        raise AssertionError("the last try returns or raises")

    def reload(self) -> bool:
        """Change to the newest generation, a base or what builds on one; return whether there was a newer one.

        Answers that are being made meanwhile are made by the state they began with. If the newer one cannot be used,
        an error says why and the old one stays.
        """
        with self._changing:
            if newest(self.path) == self._model.folder:
                return False
            self._model = self._opened()
            return True

    @overload
    def __call__(self, rows: Any, fetch: str = PREDICTION) -> Fetched: ...
    @overload
    def __call__(self, rows: Any, fetch: Sequence[str] | Mapping[str, str]) -> dict[str, Fetched]: ...
    def __call__(self, rows: Any, fetch: str | Sequence[str] | Mapping[str, str] = PREDICTION) -> Any:
        """Score rows; the same as :meth:`predict`."""
        return self.predict(rows, fetch)

    def predict(self, rows: Any, fetch: str | Sequence[str] | Mapping[str, str] = PREDICTION) -> Any:
        """Return predictions, or other tensors, for every row in order.

        Parameters
        ----------
        rows
            One row as a dict, several as a list of dicts, columns as a dict of sequences, a pandas, polars or Arrow
            frame, lines of JSON; or ready-made columns of batches. No label is needed. A cell that cannot be used is
            an error that names its row and column.
        fetch
            A name gives one array, several give a dict: ``"prediction"``, outputs and ops of the graph. ``{name:
            source}`` names them anew. Only what leads to them must be in the rows.
        """
        return self.answer(rows, fetch)[0]

    def answer(self, rows: Any, fetch: str | Sequence[str] | Mapping[str, str] = PREDICTION) -> tuple[Any, str]:
        """Return what :meth:`predict` does and the version that made all of it."""
        model = self._model  # read once: no answer is made by two states
        rows = list(rows) if isinstance(rows, Iterator) else rows
        if isinstance(fetch, str):
            return model.run(rows, fetch), model.version
        names = fetch if isinstance(fetch, Mapping) else {name: name for name in fetch}
        if not names:
            raise GraphError("nothing is fetched: name a tensor")
        return {name: model.run(rows, source) for name, source in names.items()}, model.version

    def columns(self, rows: Any, fetch: str = PREDICTION) -> dict[str, Any]:
        """Return the columns of a batch that rows are made into: what other programs have to reproduce."""
        model = self._model
        return model.columns(rows, model.wanted(fetch))
