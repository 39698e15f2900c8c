"""ResNet-18 (or 50) on a part of CIFAR-10 with Momentum and L2: which of ten things does a picture show.

    python examples/resnet_cifar.py FOLDER [LAYERS] [--workers N]

FOLDER holds train/CLASS/*.jpg and test/CLASS/*.jpg (or .png), 32x32 pixels: CIFAR-10 is at
https://www.cs.toronto.edu/~kriz/cifar.html. Guessing is right once in ten times (top-1), or in two (top-5). Channels
are an eighth of the paper's and few pictures are seen, so that a laptop needs about a minute. A step is two batches,
computed by as many workers as there are: every worker holds the parameters, and gradients are all-reduced in the order
of the batches, so that one worker and two give the same bits.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/, beside this folder

import heterps as hps
from graphs.resnet import resnet
from heterps.data import image_folder
from heterps.tables import Steps

LAYERS = 18  # or 50, as the second word of the command line
WIDTH = 8
BATCH_SIZE = 32
LANES = 2  # batches of a step
WORKERS = 2  # or as --workers says
EPOCHS = 2
# Rates are for the sum over both lanes; the last quarter of the 312 steps takes a tenth.
RATE = Steps(starts=(0, 230), rates=(0.025, 0.0025))
DENSE = hps.Momentum(lr=RATE, momentum=0.9, l2=5e-4)
SEED = 0
ENGINE = "auto"


def run(folder: Path, layers: int = LAYERS, workers: int = WORKERS) -> dict[str, float]:
    for part in ("train", "test"):
        if not (folder / part).is_dir():
            sys.exit(f"{folder} has no folder {part}\n{__doc__}")
    train, test = image_folder(folder / "train"), image_folder(folder / "test")
    graph = resnet(layers, shape=(*train.size, 3), classes=len(train.classes), width=WIDTH)
    plan = hps.Plan.fused(graph, batch_size=BATCH_SIZE, workers=workers, lanes=LANES)
    ways = {"*": "allreduce"}
    with hps.launch(plan, mode="sync", dense=DENSE, seed=SEED, engine=ENGINE, parameters=ways) as session:
        session.fit(train.shuffle("global"), epochs=EPOCHS)
        return session.evaluate(test, ["acc1", "acc5"])


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("layers", type=int, nargs="?", default=LAYERS, choices=[18, 50])
    parser.add_argument("--workers", type=int, default=WORKERS)
    given = parser.parse_args()
    result = run(given.folder, given.layers, given.workers)
    print(f"\ntest pictures: top-1 {result['acc1']:.4f}, top-5 {result['acc5']:.4f}")


if __name__ == "__main__":
    main()
