"""An MLP on MNIST with its parameters on two shard hosts and two workers that train.

    python examples/mnist_mlp.py FOLDER

FOLDER holds the four idx files (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte,
t10k-labels-idx1-ubyte; with or without .gz), from http://yann.lecun.com/exdb/mnist/ or one of its mirrors.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/, beside this folder

import heterps as hps
from graphs.mnist_mlp import mnist_mlp
from heterps.data import idx

HIDDEN = (256, 128)
BATCH_SIZE = 64
EPOCHS = 3
DENSE = hps.Adam(lr=0.001)
SHARD_HOSTS, WORKERS = 2, 2
SEED = 0
ENGINE = "auto"


def images(folder: Path, part: str) -> hps.Dataset:
    """The images and labels of ``train`` or ``t10k``."""
    files = []
    for what in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        found = [folder / f"{part}-{what}{end}" for end in ("", ".gz") if (folder / f"{part}-{what}{end}").exists()]
        if not found:
            sys.exit(f"{folder} has no {part}-{what}\n{__doc__}")
        files.append(found[0])
    return idx(*files, flat=True)


def run(folder: Path) -> dict[str, float]:
    train, test = images(folder, "train"), images(folder, "t10k")
    graph = mnist_mlp(train.schema["x"].width, HIDDEN)
    plan = hps.Plan.fused(graph, batch_size=BATCH_SIZE, workers=WORKERS, shard_hosts=SHARD_HOSTS)
    with hps.launch(plan, dense=DENSE, seed=SEED, engine=ENGINE) as session:
        session.fit(train.shuffle("local"), epochs=EPOCHS)
        return session.evaluate(test, ["acc1"])


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(f"\ntest set: {run(Path(sys.argv[1]))['acc1']:.4f} of the digits are right")


if __name__ == "__main__":
    main()
