"""Wide & Deep on the census data of its first tutorial: does a person earn more than 50,000 a year.

Run by `make demo`. The data is part of the package: 32,561 rows to train on, 16,281 to test.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/, beside this folder

import heterps as hps
from graphs.wide_deep import wide_deep

DIM = 8
HIDDEN = (64, 32)
BATCH_SIZE = 256
EPOCHS = 2
SPARSE = hps.ElementAdaGrad(lr=0.02)
DENSE = hps.Adam(lr=0.001)
SEED = 0


def main() -> None:
    started = time.perf_counter()
    train, test = hps.adult("train").shuffle("local"), hps.adult("test")
    graph = wide_deep(slots=19, dense=5, dim=DIM, hidden=HIDDEN)
    print("The first run compiles inner loops, for a quarter of a minute or more; they are kept for the next.\n")
    plan = hps.plan(graph, hps.Hardware.local(), batch_size=BATCH_SIZE)
    print(plan.report())
    with hps.launch(plan, sparse=SPARSE, dense=DENSE, seed=SEED) as session:
        for progress in session.train(train, epochs=EPOCHS):
            print(progress)
        result = session.evaluate(test)

    print(f"\nadult.test: AUC {result['auc']:.4f}, logloss {result['logloss']:.4f}")
    print(f"{time.perf_counter() - started:.1f} s in all")


if __name__ == "__main__":
    main()
