"""MATCHNET on MovieLens 100k: which films will a person see next.

    python examples/matchnet.py FOLDER [vectors.parquet]

FOLDER holds u.item, u.user, ua.base and ua.test of https://files.grouplens.org/datasets/movielens/ml-100k.zip.
ua.base is trained on; ua.test has ten more films of each person. Recall@20 is the share of those among the twenty films
that the model ranks highest of all the person has not seen yet; recommending the most popular films is the baseline.
The item vectors are written to a Parquet file; the model is exported beside it, and recall@20 is measured again with
vectors that the exported model makes and an index of them finds (hps.Predictor, hps.Neighbours): it must be the same.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/ and examples/, beside this folder

import numpy as np

import heterps as hps
from examples.movielens import MovieLens, histories, popularity, read, recall
from graphs.matchnet import matchnet

DIM = 32
WIDTH = 32
HIDDEN = (64,)
TEMPERATURE = 0.15
HISTORY = 30
BATCH_SIZE = 512
EPOCHS = 8
SPARSE = hps.ElementAdaGrad(lr=0.05)
DENSE = hps.Adam(lr=0.002)
TOP = 20
SEED = 0
ENGINE = "auto"


def training_rows(data: MovieLens) -> hps.Dataset:
    """One row per film seen: the person, what they had seen before it, the film."""
    user, item, before = histories(data, HISTORY)
    return hps.arrays(
        {
            "user": data.users[user],
            "item": data.items[item],
            "item_id": item.astype(np.uint64),
            "log_share": np.log(popularity(data) / len(item) + 1e-9)[item],
            "history": before,
        }
    )


def people(data: MovieLens) -> hps.Dataset:
    """Each person with the last films seen."""
    return hps.arrays({"user": data.users, "history": histories(data, HISTORY, last=True)[2]})


def run(folder: Path, out: Path) -> tuple[float, float]:
    data = read(folder)
    graph = matchnet(data.users.shape[1], data.items.shape[1], DIM, HIDDEN, WIDTH, TEMPERATURE, HISTORY)
    plan = hps.Plan.fused(graph, batch_size=BATCH_SIZE)
    films = hps.arrays({"item": data.items, "item_id": np.arange(len(data.items), dtype=np.uint64)})
    with hps.launch(plan, sparse=SPARSE, dense=DENSE, seed=SEED, engine=ENGINE) as session:
        session.fit(training_rows(data).shuffle("local"), epochs=EPOCHS)
        user, item = session.predict(people(data), fetch="user_vector"), session.predict(films, fetch="item_vector")
        session.predict(films, out=out, fetch=["item_id", "item_vector"])
        session.export(out.parent / "export")
    found = recall(user @ item.T, data, TOP)
    served = exported_recall(out.parent / "export", data)
    assert served == found, f"recall@{TOP} is {found} before and {served} after the export"
    return found, recall(np.tile(popularity(data), (len(user), 1)), data, TOP)


def exported_recall(export: Path, data: MovieLens) -> float:
    """Recall with the exported model alone: item vectors in an index, user vectors looked for there."""
    predictor = hps.Predictor(export)
    items = predictor({"item": data.items}, "item_vector")
    near = hps.Neighbours.build(Path(tempfile.mkdtemp()) / "films", np.arange(len(items)), items)
    person = {"user": data.users, "history": histories(data, HISTORY, last=True)[2]}
    seen = [data.train[data.train[:, 0] == user, 1] for user in range(len(data.users))]
    ids, _ = near.search(predictor(person, "user_vector"), TOP, without=seen)
    return float(np.mean([item in ids[user] for user, item in data.test[:, :2]]))


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp()) / "items.parquet"
    found, popular = run(Path(sys.argv[1]), out)
    print(f"\nrecall@{TOP}: {found:.4f}; most popular films {popular:.4f}\nitem vectors: {out}")


if __name__ == "__main__":
    main()
