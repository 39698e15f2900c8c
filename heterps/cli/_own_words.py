"""Keep standard output to what the command itself prints."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["own_words_only"]


@contextmanager
def own_words_only() -> Iterator[None]:
    """Drop what compiled libraries print meanwhile: HiGHS has words for its log, where JSON or commands may go."""
    try:
        kept = os.dup(1)
    except OSError:  # closed: nothing can be printed
        yield
        return
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # they print through a buffer of their own
        os.dup2(kept, 1)
        os.close(kept)
