"""Reads MovieLens 100k for the examples that use it."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["MovieLens", "read"]

FILES = ("ua.base", "ua.test", "u.item", "u.user")
WHERE = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"


@dataclass(frozen=True)
class MovieLens:
    """Ratings ``(user, item, stars, time)`` counted from 0, and the features of users and items as ids."""

    train: np.ndarray
    test: np.ndarray
    users: np.ndarray  # id, age group, sex, occupation
    items: np.ndarray  # id, year
    genres: np.ndarray  # 0 or 1 per item and genre


def read(folder: Path) -> MovieLens:
    missing = [name for name in FILES if not (folder / name).exists()]
    if missing:
        sys.exit(f"{folder} has no {missing[0]}: unpack {WHERE} there")
    users = [line.split("|") for line in (folder / "u.user").read_text().splitlines()]
    films = [line.split("|") for line in (folder / "u.item").read_text(encoding="latin-1").splitlines()]
    return MovieLens(
        _ratings(folder / "ua.base"),
        _ratings(folder / "ua.test"),
        _ids([(u[0], int(u[1]) // 10, u[2], u[3]) for u in users]),
        _ids([(f[0], f[2][-4:]) for f in films]),
        np.array([[int(flag) for flag in f[-19:]] for f in films]),
    )


def _ratings(path: Path) -> np.ndarray:
    rows = np.loadtxt(path, dtype=np.int64)
    rows[:, :2] -= 1
    return rows


def _ids(rows: list[tuple[object, ...]]) -> np.ndarray:
    """One id per column and value."""
    columns, first = [], 0
    for column in zip(*rows, strict=True):
        kinds, codes = np.unique(np.array(column, dtype=str), return_inverse=True)
        columns.append(codes + first)
        first += len(kinds)
    return np.stack(columns, axis=1).astype(np.uint64)
