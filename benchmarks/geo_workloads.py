"""What is trained over slow links: word2vec on the head of text8, Wide & Deep on generated clicks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import heterps as hps
from benchmarks.workload import Workload
from examples import word2vec as example
from graphs.wide_deep import wide_deep
from graphs.word2vec import word2vec

__all__ = ["WORKLOADS", "Trained"]

TEXT = "HETERPS_TEXT8"  # names the file of words
SAMPLES, HELD_OUT = int(os.environ.get("HETERPS_SAMPLES", 1 << 20)), 1 << 16


@dataclass(frozen=True)
class Trained:
    """A model, its data, and how good it is after training."""

    graph: hps.Graph
    data: hps.Dataset
    batch_size: int
    rule: Any
    judge: Callable[[hps.Session], float]


def words() -> Trained:
    """Dim 300 and batches of 512 pairs; judged by the company that neighbours keep in unseen text."""
    path = os.environ.get(TEXT)
    if not path:
        raise SystemExit(f"{TEXT} must name a file of words, such as the head of text8")
    names, codes = example.numbered(Path(path).read_text().split())
    seen, unseen = codes[: len(codes) * 9 // 10], example.company(codes[len(codes) * 9 // 10 :], len(names))
    weights = np.bincount(seen, minlength=len(names)) ** 0.75
    pairs = example.pairs(seen, np.random.default_rng(0))
    kept = {name: column[:SAMPLES] for name, column in pairs.items()}
    data = hps.arrays(kept, split_cost=1 << 18)
    return Trained(
        word2vec(len(names), 300, 5, weights), data, 512, hps.SGD(lr=5.0), partial(_likeness, unseen, len(names))
    )


def _likeness(unseen: np.ndarray, size: int, session: hps.Session) -> float:
    vectors = session.predict(hps.arrays({"word": np.arange(size, dtype=np.uint64)}), fetch="vector")
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return example.likeness(unit, unseen)


def clicks() -> Trained:
    """26 slots of 100,000 ids by Zipf 1.1, dim 16, three layers of 400; judged by AUC on held out clicks."""
    load = Workload()
    made = load.generate(SAMPLES // 2 + HELD_OUT)
    ids = made.index.astype(np.uint64) + np.arange(load.slots, dtype=np.uint64) * np.uint64(load.ids)
    columns = {"ids": ids, "x": made.dense, "y": made.label}
    train = {name: column[:-HELD_OUT] for name, column in columns.items()}
    held = hps.arrays({name: column[-HELD_OUT:] for name, column in columns.items()})
    graph = wide_deep(slots=load.slots, dense=load.dense, dim=load.dim, hidden=load.hidden)
    data = hps.arrays(train, split_cost=1 << 17)
    return Trained(graph, data, 1024, hps.SGD(lr=0.1), lambda session: session.evaluate(held)["auc"])


WORKLOADS: dict[str, Callable[[], Trained]] = {"word2vec": words, "wide_deep": clicks}
