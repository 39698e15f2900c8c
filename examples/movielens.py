"""Reads MovieLens 100k for the examples that use it, and judges rankings of its films."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import heterps as hps

__all__ = ["MovieLens", "histories", "popularity", "ragged", "read", "recall"]

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


def ragged(lists: list[np.ndarray]) -> hps.Ragged:
    """Lists of ids as one column."""
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    return hps.Ragged(np.concatenate(lists).astype(np.uint64), offsets)


def histories(data: MovieLens, most: int, *, last: bool = False) -> tuple[np.ndarray, np.ndarray, hps.Ragged]:
    """For each film seen in training: who saw it, which, and the films just before; or what each person saw last."""
    order = np.lexsort((data.train[:, 3], data.train[:, 0]))
    user, item = data.train[order, 0], data.train[order, 1]
    if last:
        return user, item, ragged([item[user == one][-most:] for one in range(len(data.users))])
    first = np.searchsorted(user, user)
    return user, item, ragged([item[max(first[i], i - most) : i] for i in range(len(user))])


def popularity(data: MovieLens) -> np.ndarray:
    """How many have seen each film."""
    return np.bincount(data.train[:, 1], minlength=len(data.items)).astype(float)


def recall(scores: np.ndarray, data: MovieLens, top: int) -> float:
    """Share of the held-out films among each person's highest-ranked unseen ones; scores are [users, items]."""
    scores = scores.copy()
    scores[data.train[:, 0], data.train[:, 1]] = -np.inf
    ranked = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return float(np.mean([item in ranked[user] for user, item in data.test[:, :2]]))
