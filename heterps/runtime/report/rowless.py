"""Training that used not a single row is an error, not a result."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from heterps.data import Dataset
from heterps.runtime.batch.labelling import no_rows
from heterps.runtime.report.progress import Progress

__all__ = ["never_empty"]


def never_empty(reports: Generator[Progress, None, None], dataset: Dataset) -> Generator[Progress, None, None]:
    """Pass on what training reports; raise in place of the last report of one that had no row to train on."""
    with closing(reports):
        for progress in reports:
            if progress.done and not progress.samples:
                raise no_rows("trained on", dataset)
            yield progress
