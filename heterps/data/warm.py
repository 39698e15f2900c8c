"""Compile the loops that reading uses, by reading a few rows of text."""

from __future__ import annotations

import tempfile
from pathlib import Path

from heterps.compiled import Warmed, accounts
from heterps.data.text.criteo import Criteo

__all__ = ["warm"]


def warm() -> tuple[Warmed, ...]:
    """Compile, or load from the cache, what reading Criteo's format with and without shuffling needs."""
    row = "\t".join(["1", *("3" for _ in range(13)), *("68fd1e64" for _ in range(26))]) + "\n"
    with tempfile.TemporaryDirectory(prefix="heterps-warm-") as folder:
        path = Path(folder, "rows.tsv")
        path.write_text(row * 8)
        for dataset in (Criteo(str(path)), Criteo(str(path)).shuffle("local")):
            for split in dataset.splits():
                for _ in dataset.read(split, batch_size=4):
                    pass
    return accounts("heterps.data.")
