"""The one workload every system trains on: made from a seed, with labels a model can learn.

Imports NumPy only, so that it runs unchanged inside every peer's environment.

Ids follow a bounded Zipf law over ``ids`` values in every slot. Each value has an *index* (0 .. ids-1, scattered so
that popular rows are not neighbours), which systems that address arrays use, and a *token* (32 bits,
``token % ids == index``), which is what the files hold and what systems that hash arbitrary ids see.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

CHUNK = 65_536
FACTORS = 4
DATA_FOLDER = Path(__file__).parent / ".data"
MODELS = ("wide_deep", "deepfm", "dlrm", "sparse_heavy")
RULES = ("sgd", "adagrad", "rowwise")
SOURCES = ("memory", "tsv", "parquet")


@dataclass(frozen=True)
class Samples:
    """Rows of the workload: counts as they stand in a log, the features made of them, ids and labels."""

    counts: np.ndarray
    index: np.ndarray
    label: np.ndarray

    def __len__(self) -> int:
        return len(self.label)

    @property
    def dense(self) -> np.ndarray:
        """Log-scaled counts, float32: what the models see."""
        return np.log1p(self.counts).astype(np.float32)

    def rows(self, start: int, stop: int) -> Samples:
        """A contiguous part, without copying."""
        return Samples(self.counts[start:stop], self.index[start:stop], self.label[start:stop])

    def fields(self) -> dict[str, np.ndarray]:
        """The arrays by name, as files hold them."""
        return dict(vars(self))


@dataclass(frozen=True)
class ListSamples(Samples):
    """Samples where some slots have lists: ``lengths[n, lists]``, and ``listed``, sample after sample, list after list.

    A *bag* is what one slot of one sample has, be it one id or a list.
    """

    lengths: np.ndarray
    listed: np.ndarray

    def rows(self, start: int, stop: int) -> ListSamples:
        """A contiguous part."""
        before, mine = self.lengths[:start].sum(), self.lengths[start:stop].sum()
        columns = (column[start:stop] for column in (self.counts, self.index, self.label, self.lengths))
        return ListSamples(*columns, self.listed[before : before + mine])

    def slot_of_listed(self) -> np.ndarray:
        """Which of the lists each listed id is in."""
        return np.repeat(np.tile(np.arange(self.lengths.shape[1]), len(self)), self.lengths.ravel())

    def bag_sizes(self) -> np.ndarray:
        """Ids of each bag, ``[n, slots]``."""
        return np.concatenate([np.ones(self.index.shape, np.int64), self.lengths], axis=1)

    def by_sample(self, ids: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all slots in one space and where the bags begin, sample after sample."""
        sizes, single = self.bag_sizes(), self.index.shape[1]
        begins = np.cumsum(sizes.ravel()) - sizes.ravel()
        out, is_listed = np.empty(int(sizes.sum()), np.int64), np.ones(int(sizes.sum()), bool)
        at = begins.reshape(sizes.shape)[:, :single]
        out[at], is_listed[at] = self.index + np.arange(single) * ids, False
        out[is_listed] = self.listed + (single + self.slot_of_listed()) * ids
        return out, begins

    def by_slot(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids and where the bags begin (and the last one ends), slot after slot."""
        listed = self.listed[np.argsort(self.slot_of_listed(), kind="stable")]
        ends = np.cumsum(self.bag_sizes().T.ravel())
        return np.concatenate([self.index.T.ravel(), listed]).astype(np.int64), np.concatenate([[0], ends])


@dataclass(frozen=True)
class Workload:
    """Shape and seed of the generated click log and of the models trained on it."""

    slots: int = 26
    dense: int = 13
    ids: int = 100_000
    dim: int = 16
    hidden: tuple[int, ...] = (400, 400, 400)
    exponent: float = 1.1
    seed: int = 2026
    lists: int = 0  # of the slots, the last ones, that have a list of ids each
    mean_ids: int = 10  # in such a list; 1 to twice as many less one, evenly

    @property
    def name(self) -> str:
        """File-name part that tells generated data of different shapes apart."""
        lists = f"-l{self.lists}x{self.mean_ids}" if self.lists else ""
        return f"s{self.slots}-d{self.dense}-v{self.ids}-z{self.exponent:g}-r{self.seed}{lists}"

    @property
    def single(self) -> int:
        """Slots with one id each: the first ones."""
        return self.slots - self.lists

    def layers(self, model: str) -> list[list[tuple[int, int]]]:
        """Widths (in, out) of every dense layer, one list per tower, the tower with the output last."""
        towers = []
        inputs = self.dense + self.slots * self.dim
        if model == "dlrm":
            bottom = (self.dense, self.hidden[0], self.dim)
            towers.append(list(pairwise(bottom)))
            vectors = self.slots + 1
            inputs = self.dim + vectors * (vectors - 1) // 2
        top = (inputs, *self.hidden, 1)
        return [*towers, list(pairwise(top))]

    def flops_per_sample(self, model: str) -> int:
        """Multiply-adds of the dense layers, forward and backward, counted as two operations each."""
        return 6 * sum(a * b for tower in self.layers(model) for a, b in tower)

    def tokens(self, index: np.ndarray, first: int = 0) -> np.ndarray:
        """32-bit ids of ``index[n, slots]`` as a log would hold them; ``tokens % ids`` gives the index back."""
        slot = np.arange(first, first + index.shape[1], dtype=np.uint64)
        mixed = _mix(index.astype(np.uint64) + (slot << np.uint64(32)))
        room = np.uint64(2**32 // self.ids - 1)
        return (index.astype(np.uint64) + (mixed % room) * np.uint64(self.ids)).astype(np.uint32)

    def chunks(self, n: int) -> Iterator[Samples]:
        """Samples in fixed chunks, each from its own seed: a longer run begins with the shorter one."""
        hidden = _Hidden.of(self)
        for number, start in enumerate(range(0, n, CHUNK)):
            yield hidden.samples(np.random.default_rng([self.seed, number])).rows(0, min(CHUNK, n - start))

    def generate(self, n: int) -> Samples:
        """The first ``n`` samples in memory."""
        parts = list(self.chunks(n))
        return type(parts[0])(**{f: np.concatenate([getattr(p, f) for p in parts]) for f in parts[0].fields()})


#: The shape of models that want one of their own; the others train on the usual one.
SHAPES = {"sparse_heavy": Workload(slots=60, lists=20, dim=32, hidden=(64, 32))}


def shape_of(model: str) -> Workload:
    """The workload that a model is trained on."""
    return SHAPES.get(model, Workload())


@dataclass(frozen=True)
class _Hidden:
    """The model behind the labels: linear in counts and ids, plus a factorisation machine over ids."""

    workload: Workload
    cumulative: np.ndarray
    scatter: np.ndarray
    slope: np.ndarray
    linear: np.ndarray
    factors: np.ndarray
    shift: float = 0.0

    @classmethod
    def of(cls, w: Workload) -> _Hidden:
        rng = np.random.default_rng([w.seed, 1 << 40])
        mass = np.arange(1, w.ids + 1, dtype=np.float64) ** -w.exponent
        scatter = np.stack([rng.permutation(w.ids) for _ in range(w.slots)]).astype(np.int32)
        slope = rng.normal(0, 0.15, w.dense).astype(np.float32)
        linear = rng.normal(0, 0.35, (w.single, w.ids)).astype(np.float32)
        factors = rng.normal(0, 0.15, (w.single, w.ids, FACTORS)).astype(np.float32)
        hidden = cls(w, np.cumsum(mass) / mass.sum(), scatter, slope, linear, factors)
        counts, index = hidden.features(np.random.default_rng([w.seed, 1 << 41]))
        # One click in about four: the median logit of a held-out chunk is moved to -1.
        return replace(hidden, shift=float(np.median(hidden.logit(counts, index))) + 1.0)

    def features(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        w = self.workload
        counts = np.exp(rng.normal(1.0, 1.0, (CHUNK, w.dense))).astype(np.int32)
        rank = np.searchsorted(self.cumulative, rng.random((CHUNK, w.single))).clip(max=w.ids - 1)
        index = np.stack([self.scatter[s][rank[:, s]] for s in range(w.single)], axis=1)
        return counts, index

    def listed(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Lengths ``[n, lists]``, and the ids of one sample's lists after those of another's."""
        w = self.workload
        lengths = rng.integers(1, 2 * w.mean_ids, (CHUNK, w.lists)).astype(np.int64)
        slot = np.repeat(np.tile(np.arange(w.single, w.slots), CHUNK), lengths.ravel())
        rank = np.searchsorted(self.cumulative, rng.random(len(slot))).clip(max=w.ids - 1)
        return lengths, self.scatter[slot, rank]

    def logit(self, counts: np.ndarray, index: np.ndarray) -> np.ndarray:
        total = np.zeros((len(index), FACTORS), np.float32)
        squares = np.zeros_like(total)
        out = np.log1p(counts).astype(np.float32) @ self.slope
        for s in range(self.workload.single):
            out += self.linear[s][index[:, s]]
            v = self.factors[s][index[:, s]]
            total += v
            squares += v * v
        return out + 0.5 * (total * total - squares).sum(1)

    def samples(self, rng: np.random.Generator) -> Samples:
        counts, index = self.features(rng)
        chance = 1 / (1 + np.exp(self.shift - self.logit(counts, index)))
        label = (rng.random(CHUNK) < chance).astype(np.float32)
        if not self.workload.lists:
            return Samples(counts, index, label)
        return ListSamples(counts, index, label, *self.listed(rng))


def _mix(x: np.ndarray) -> np.ndarray:
    """Scatter 64-bit integers (finaliser of MurmurHash3)."""
    x = x ^ (x >> np.uint64(33))
    x = x * np.uint64(0xFF51AFD7ED558CCD)
    x = x ^ (x >> np.uint64(33))
    x = x * np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(33))


def data_file(workload: Workload, samples: int, folder: Path = DATA_FOLDER) -> Path:
    """The ``.npz`` with ``samples`` rows of the workload, generated on first use."""
    path = folder / f"{workload.name}-n{samples}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = workload.generate(samples)
        partial = path.with_name(f"{path.stem}-{os.getpid()}.npz")
        np.savez(partial, **made.fields())
        partial.rename(path)
    return path


def read(path: str | Path, start: int = 0, stop: int | None = None) -> Samples:
    """Rows ``start:stop`` of a file of `data_file`; only those stay in memory."""
    with np.load(path) as held:
        if "lengths" in held:
            whole = ListSamples(**{name: held[name] for name in held})
            return whole.rows(start, len(whole) if stop is None else stop)
        return Samples(*(np.array(held[name][start:stop]) for name in ("counts", "index", "label")))


def auc(score: np.ndarray, label: np.ndarray) -> float:
    """Area under the ROC curve, ties counted half."""
    _, inverse, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[inverse]
    positive = float(label.sum())
    return float((rank[label > 0].sum() - positive * (positive + 1) / 2) / (positive * (len(label) - positive)))
