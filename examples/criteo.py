"""Four models on the first 80,000 rows of Criteo's display-advertising data: will a shown ad be clicked on.

    python examples/criteo.py dac_sample.tsv [wide_deep deepfm dlrm dcn_v2]

Rows 0 to 63,999 of the file are trained on once, rows 64,000 to 79,999 are predicted. One pass is right for so few
rows: in a second, every model learns its training ids by heart.
"""

import importlib
import itertools
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/, beside this folder

import heterps as hps

MODELS = ("wide_deep", "deepfm", "dlrm", "dcn_v2")
TRAIN_ROWS, TEST_ROWS = 64_000, 16_000
BATCH_SIZE = 512
EPOCHS = 1
SPARSE = hps.ElementAdaGrad(lr=0.01)
DENSE = hps.Adam(lr=0.001)
SEED = 0


def divide(source: Path, folder: Path) -> tuple[hps.Dataset, hps.Dataset]:
    """Write the first rows to one file and the next to another."""
    with source.open("rb") as lines:
        for name, rows in (("train.tsv", TRAIN_ROWS), ("test.tsv", TEST_ROWS)):
            (folder / name).write_bytes(b"".join(itertools.islice(lines, rows)))
    return hps.Criteo(folder / "train.tsv"), hps.Criteo(folder / "test.tsv")


def run(name: str, train: hps.Dataset, test: hps.Dataset) -> dict[str, float]:
    model = getattr(importlib.import_module(f"graphs.{name}"), name)
    plan = hps.Plan.fused(model(), batch_size=BATCH_SIZE)
    with hps.launch(plan, sparse=SPARSE, dense=DENSE, seed=SEED) as session:
        session.fit(train.shuffle("local"), epochs=EPOCHS)
        return session.evaluate(test)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        train, test = divide(Path(sys.argv[1]), Path(folder))
        for name in sys.argv[2:] or MODELS:
            result = run(name, train, test)
            print(f"{name}: AUC {result['auc']:.4f}, logloss {result['logloss']:.4f}\n")


if __name__ == "__main__":
    main()
