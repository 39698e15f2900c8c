"""What a stream is fed: portions of rows, one after another, from a source that remembers nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from heterps.errors import CheckpointError

__all__ = ["Nothing", "Portion", "StreamSource", "day_order"]


@dataclass(frozen=True)
class Portion:
    """The rows of one pass: what they are called, and where they lie.

    Parameters
    ----------
    position
        Where the source stands once this is taken; JSON-able, and nobody's business but the source's.
    day, name
        Of the pass. A source without days calls every day "".
    files
        What readers open, where the rows lie in files already.
    span
        What :meth:`StreamSource.fetch` needs to bring the same rows again; JSON-able.
    missing
        It was waited for long enough and did not come: there are no rows.
    closes
        Nothing more of its day is expected.
    """

    position: Any
    day: str = ""
    name: str = ""
    files: tuple[str, ...] = ()
    span: Any = None
    missing: bool = False
    closes: bool = False

    def __str__(self) -> str:
        return " ".join(filter(None, (self.day, self.name))) or "the next rows"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able description."""
        return asdict(self) | {"files": list(self.files)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Portion:
        """Inverse of :meth:`to_json`."""
        try:
            return cls(**{**value, "files": tuple(value["files"])})
        except (TypeError, KeyError) as error:
            raise CheckpointError(f"this is no portion of a stream: {value!r}") from error


@dataclass(frozen=True)
class Nothing:
    """There is no portion now.

    Parameters
    ----------
    awaited
        What is missing, in words.
    expected
        It will come, or was promised by a list: wait for it even if nobody follows the source.
    closes
        All days that were listed are over, the open one too.
    """

    awaited: str
    expected: bool = False
    closes: bool = False


class StreamSource(Protocol):
    """Something that has rows for a stream now and then: folders, a queue.

    It keeps no place of its own. The stream's checkpoint holds the position beside the tables that have the rows up to
    it, so the two cannot disagree; after a crash the stream asks again from there. A portion that was begun is noted
    before, and fetched again as it was. Calls come from one thread at a time, but ``commit`` from another one.
    """

    def poll(self, after: Any) -> Portion | Nothing:
        """Return the portion behind a position (None: from the beginning) at once; wait for nothing."""

    def fetch(self, portion: Portion, folder: Path) -> tuple[str, ...]:
        """Bring its rows to files and return them; the same rows every time. ``folder`` is empty, and goes later."""

    def commit(self, position: Any) -> None:
        """Take notice that everything up to a position is on disk with the tables: it will not be asked for again."""

    def close(self) -> None:
        """Give everything back."""


def day_order(name: str) -> tuple[Any, ...]:
    """Return a key that sorts days and passes as people do: 9 before 10."""
    return tuple((0, int(part), part) if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)
