"""Errors of ops and stages say where they happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from heterps.errors import HeterpsError, OpError, RunError

__all__ = ["placed"]


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Name the place of whatever the block raises; an error of ours keeps its kind.

    Around computing here only, not around calls to other workers: those have named their own place.
    """
    try:
        yield
    except OpError as error:
        named = OpError(f"{error}; in {where}")
        named.__notes__ = getattr(error, "__notes__", [])
        raise named from error.__cause__
    except HeterpsError as error:
        error.add_note(f"In {where}.")
        raise
    except Exception as error:
        raise RunError(f"{where} failed: {type(error).__name__}: {error}") from error
