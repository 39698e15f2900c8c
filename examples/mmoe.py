"""MMoE on the census data: does a person earn more than 50,000 a year, and has that person never been married.

    python examples/mmoe.py

Both tasks share experts and are learnt at once, as in the paper. The data is part of the package.
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/, beside this folder

import heterps as hps
from graphs.mmoe import mmoe
from heterps.data import Bucket, Category, Match, dense, sparse

TASKS = ("income", "never married")
CATEGORIES = ("workclass", "education", "occupation", "race", "sex", "native_country")
AGES, HOURS = (18, 21, 24, 27, 30, 33, 36, 40, 45, 50, 55, 60, 65, 75), (15, 25, 35, 40, 41, 46, 51, 61)
BATCH_SIZE = 256
EPOCHS = 2
SPARSE = hps.ElementAdaGrad(lr=0.02)
DENSE = hps.Adam(lr=0.001)
SEED = 0
ENGINE = "auto"


def people(part: str) -> hps.Dataset:
    """The columns of Wide & Deep without those that tell who is married, and two labels."""
    data = hps.adult(part)
    ids = sparse("ids", *map(Category, CATEGORIES), Bucket("age", AGES), Bucket("hours_per_week", HOURS))
    labels = dense("y", Match("income", ">50K"), Match("marital_status", "Never-married"))
    return replace(data, fields=hps.Schema.of(ids, data.schema["x"], labels))


def run() -> dict[str, float]:
    graph = mmoe(slots=len(CATEGORIES) + 2, dense=5, tasks=len(TASKS))
    with hps.launch(
        hps.Plan.fused(graph, batch_size=BATCH_SIZE), sparse=SPARSE, dense=DENSE, seed=SEED, engine=ENGINE
    ) as session:
        session.fit(people("train").shuffle("local"), epochs=EPOCHS)
        found = session.evaluate(people("test"), ["auc"])
    return {task: found[f"auc_{i}"] for i, task in enumerate(TASKS)}


def main() -> None:
    for task, auc in run().items():
        print(f"adult.test, {task}: AUC {auc:.4f}")


if __name__ == "__main__":
    main()
