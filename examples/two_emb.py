"""2EMB on MovieLens 100k: will a person give a film four stars or more.

    python examples/two_emb.py FOLDER

FOLDER holds u.item, u.user, ua.base and ua.test of https://files.grouplens.org/datasets/movielens/ml-100k.zip.
ua.base is trained on, ua.test judged; the baseline ranks by each film's share of good ratings alone.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/ and examples/, beside this folder

import numpy as np

import heterps as hps
from examples.movielens import MovieLens, read
from graphs.two_emb import two_emb
from heterps.metrics import metric

DIM = 16
HIDDEN = (64, 32, 16)
BATCH_SIZE = 256
EPOCHS = 3
SPARSE = hps.ElementAdaGrad(lr=0.02)
DENSE = hps.Adam(lr=0.001)
SEED = 0
ENGINE = "auto"


def rated(data: MovieLens, rows: np.ndarray) -> hps.Dataset:
    """One row per rating."""
    good = (rows[:, 2] >= 4).astype(np.float32)
    return hps.arrays({"left": data.users[rows[:, 0]], "right": data.items[rows[:, 1]], "y": good})


def baseline(data: MovieLens) -> float:
    """AUC of each film's own share of good ratings, drawn towards the mean where there are few."""
    good = data.train[:, 2] >= 4
    counts, sums = (np.bincount(data.train[:, 1], w, len(data.items)) for w in (None, good))
    share = (sums + 5 * good.mean()) / (counts + 5)
    auc = metric("auc")
    return auc.result(auc.update(auc.init(), share[data.test[:, 1]], data.test[:, 2] >= 4))


def run(folder: Path) -> tuple[float, float]:
    data = read(folder)
    graph = two_emb(data.users.shape[1], data.items.shape[1], DIM, HIDDEN)
    with hps.launch(
        hps.Plan.fused(graph, batch_size=BATCH_SIZE), sparse=SPARSE, dense=DENSE, seed=SEED, engine=ENGINE
    ) as session:
        session.fit(rated(data, data.train).shuffle("local"), epochs=EPOCHS)
        return session.evaluate(rated(data, data.test))["auc"], baseline(data)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found, plain = run(Path(sys.argv[1]))
    print(f"\nheld-out ratings: AUC {found:.4f}; each film's own share {plain:.4f}")


if __name__ == "__main__":
    main()
