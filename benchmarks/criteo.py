"""Rows of the Criteo display-advertising data as samples of the workload, so that every system can train on them.

The file is given by the user and stays where it is; what is made of it goes to the ignored data folder.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from benchmarks.workload import DATA_FOLDER, Workload

TRAIN_SHARE = 0.8  # the rows before: trained on; those after: held out


def samples_file(path: Path, folder: Path = DATA_FOLDER) -> tuple[Path, int, int]:
    """The ``.npz`` of a TSV file, and how many of its rows are trained on and held out."""
    counts, tokens, label = read(path)
    index = np.stack([np.unique(column, return_inverse=True)[1] for column in tokens.T], axis=1).astype(np.int32)
    shape = Workload()
    if index.max() >= shape.ids:
        raise SystemExit(f"{path}: a column has more than {shape.ids:,} distinct values; give fewer rows")
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"criteo-n{len(label)}.npz"
    np.savez(made, counts=counts, index=index, label=label)
    train = int(len(label) * TRAIN_SHARE)
    return made, train, len(label) - train


def read(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts (missing and negative ones as 0), tokens as text, labels."""
    with path.open(newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    cells = np.array(rows)
    numbers = np.where(cells[:, 1:14] == "", "0", cells[:, 1:14]).astype(np.int64)
    return numbers.clip(0, 2**31 - 1).astype(np.int32), cells[:, 14:], cells[:, 0].astype(np.float32)
