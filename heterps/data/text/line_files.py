"""What all datasets of text files share: the files, cut into ranges of bytes, and the columns made of their lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heterps.data.core.dataset import Dataset
from heterps.data.core.files import cut, whole
from heterps.data.core.fingerprint import file_marks
from heterps.data.core.schema import Schema
from heterps.data.core.split import Piece
from heterps.data.text.lines import BLOCK_BYTES

__all__ = ["LineFiles", "PipedFiles"]


@dataclass(frozen=True, kw_only=True)
class LineFiles(Dataset):
    """Files of lines.

    Parameters
    ----------
    paths
        The files, already expanded.
    fields
        The schema of the batches.
    block_bytes
        Lines longer than this are bad.
    """

    paths: tuple[str, ...] = ()
    fields: Schema = field(default_factory=Schema)
    block_bytes: int = BLOCK_BYTES

    @property
    def schema(self) -> Schema:
        """The columns of a batch."""
        return self.fields

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Cut the files into byte ranges."""
        return cut(self.paths, grain)

    def marks(self) -> dict[str, Any]:
        """Return names, sizes and times of the files."""
        return file_marks(self.paths)


@dataclass(frozen=True, kw_only=True)
class PipedFiles(LineFiles):
    """Files of lines that a program may stand before.

    Parameters
    ----------
    pipe_command, pipe_timeout
        A shell command that gets each file on stdin and whose output is read instead; see
        :mod:`heterps.data.sources.pipe`.
    """

    pipe_command: str = ""
    pipe_timeout: float = 600.0

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Cut the files into byte ranges; what a program reads is not cut."""
        return whole(self.paths) if self.pipe_command else super().pieces(grain)
