"""Which portions were begun since the last checkpoint: noted before, so that a restart takes the very same ones."""

from __future__ import annotations

import json
from pathlib import Path

from heterps.errors import CheckpointError
from heterps.streaming.portion import Portion
from heterps.writing import write_whole

__all__ = ["Journal"]


class Journal:
    """A small file with a line for each portion since the checkpoint, first its number.

    What the source offers depends on when it is asked; what the stream does with it on nothing but the ledger. So these
    lines are all it takes to repeat what a crash undid.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[int, Portion] = self._read()

    def _read(self) -> dict[int, Portion]:
        if not self._path.exists():
            return {}
        try:
            lines = [json.loads(line) for line in self._path.read_text().splitlines()]
            return {int(line["sequence"]): Portion.from_json(line["portion"]) for line in lines}
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise CheckpointError(
                f"{self._path} is damaged ({error}); without it the stream goes on from its checkpoint, but may take "
                "other portions than before: remove it if that will do"
            ) from error

    def after(self, sequence: int) -> list[Portion]:
        """Return the portions that were begun after so many, in their order."""
        found: list[Portion] = []
        while (portion := self._lines.get(sequence + len(found) + 1)) is not None:
            found.append(portion)
        return found

    def note(self, sequence: int, portion: Portion) -> None:
        """Note a portion, before anything is done with it."""
        if self._lines.get(sequence) != portion:
            self._lines = {n: each for n, each in self._lines.items() if n < sequence} | {sequence: portion}
            self._write()

    def forget(self, upto: int) -> None:
        """Drop what a checkpoint holds."""
        if any(n <= upto for n in self._lines):
            self._lines = {n: each for n, each in self._lines.items() if n > upto}
            self._write()

    def _write(self) -> None:
        lines = [json.dumps({"sequence": n, "portion": each.to_json()}) for n, each in sorted(self._lines.items())]
        write_whole(self._path, "".join(line + "\n" for line in lines))
