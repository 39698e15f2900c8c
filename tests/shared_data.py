"""Data that is too large for the repository: a test that wants some says so in one line, and is skipped without."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["SHARED", "needs"]

SHARED = Path(__file__).parents[2] / "shared" / "data"


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test where ``../shared/data`` lacks a file or folder."""
    return pytest.mark.skipif(not (SHARED / name).exists(), reason=f"needs {name}, which lies in ../shared/data")
