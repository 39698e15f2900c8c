"""NCE on MovieLens 100k: the next film from the ones before, told apart from drawn films.

    python examples/nce.py FOLDER

FOLDER holds u.item, u.user, ua.base and ua.test of https://files.grouplens.org/datasets/movielens/ml-100k.zip.
ua.base is trained on; recall@20 is the share of the films of ua.test among the twenty ranked highest of all that a
person has not seen yet. The most popular films are the baseline.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/ and examples/, beside this folder

import numpy as np

import heterps as hps
from examples.movielens import MovieLens, histories, popularity, read, recall
from graphs.nce import nce

DIM = 32
NEGATIVES = 32
HISTORY = 30
BATCH_SIZE = 256
EPOCHS = 6
SPARSE = hps.ElementAdaGrad(lr=0.05)
DENSE = hps.Adam(lr=0.002)
TOP = 20
SEED = 0
ENGINE = "auto"


def training_rows(data: MovieLens) -> hps.Dataset:
    """One row per film seen: what came before, and the film."""
    _, item, before = histories(data, HISTORY)
    return hps.arrays({"history": before, "target": item.astype(np.uint64)})


def scores(session: hps.Session, data: MovieLens) -> np.ndarray:
    """How each film suits each person after the last one seen."""
    people = hps.arrays({"history": histories(data, HISTORY, last=True)[2]})
    films = hps.arrays({"target": np.arange(len(data.items), dtype=np.uint64)})
    found = session.predict(films, fetch=["true_rows", "true_bias"])
    return session.predict(people, fetch="state") @ found["true_rows"].T + found["true_bias"].reshape(1, -1)


def run(folder: Path) -> tuple[float, float]:
    data = read(folder)
    weights = np.maximum(popularity(data), 0.5)
    plan = hps.Plan.fused(nce(len(data.items), DIM, NEGATIVES, weights, mean_history=HISTORY), batch_size=BATCH_SIZE)
    with hps.launch(plan, sparse=SPARSE, dense=DENSE, seed=SEED, engine=ENGINE) as session:
        session.fit(training_rows(data).shuffle("local"), epochs=EPOCHS)
        found = recall(scores(session, data), data, TOP)
    return found, recall(np.tile(popularity(data), (len(data.users), 1)), data, TOP)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found, popular = run(Path(sys.argv[1]))
    print(f"\nrecall@{TOP}: {found:.4f}; most popular films {popular:.4f}")


if __name__ == "__main__":
    main()
