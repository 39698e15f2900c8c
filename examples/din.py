"""DIN on MovieLens 100k: will a person give a film four stars or more, knowing which films they liked before.

    python examples/din.py FOLDER

FOLDER holds u.item, u.user, ua.base and ua.test of https://files.grouplens.org/datasets/movielens/ml-100k.zip.
ua.base is trained on, ua.test judged; the baseline ranks by each film's share of good ratings alone.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/ and examples/, beside this folder

import numpy as np

import heterps as hps
from examples.movielens import MovieLens, ragged, read
from examples.two_emb import baseline
from graphs.din import din

DIM = 16
ATTENTION = (24,)
HIDDEN = (48, 24)
HISTORY = 20
BATCH_SIZE = 256
EPOCHS = 3
SPARSE = hps.ElementAdaGrad(lr=0.02)
DENSE = hps.Adam(lr=0.001)
SEED = 0
ENGINE = "auto"


def rated(data: MovieLens, rows: np.ndarray) -> hps.Dataset:
    """One row per rating, with the films that the person had liked by then."""
    liked = data.train[data.train[:, 2] >= 4]
    liked = liked[np.lexsort((liked[:, 3], liked[:, 0]))]
    history = []
    for user, item, _, time in rows:
        mine = liked[slice(*np.searchsorted(liked[:, 0], [user, user + 1]))]
        before = mine[(mine[:, 3] <= time) & (mine[:, 1] != item), 1]
        history.append(before[-HISTORY:])
    good = (rows[:, 2] >= 4).astype(np.float32)
    item = rows[:, 1].astype(np.uint64)
    return hps.arrays({"user": data.users[rows[:, 0]], "item": item, "history": ragged(history), "y": good})


def run(folder: Path) -> tuple[float, float]:
    data = read(folder)
    graph = din(data.users.shape[1], DIM, ATTENTION, HIDDEN, mean_history=HISTORY)
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
