"""Results line up with rows, also where a part has none."""

import numpy as np

from heterps.data import BadRow
from heterps.runtime.batch.inference import Inferred
from heterps.runtime.report.lined_up import filled, placed


def part(split: int, *values: float, bad: tuple[BadRow, ...] = ()) -> Inferred:
    fetched = {"p": np.array(values, np.float32)} if values else {}
    return Inferred(split, len(values), {}, fetched, bad)


def test_a_part_without_rows_adds_none() -> None:
    parts = [part(0), part(1, 1.0, 2.0), part(2), part(3, 3.0), part(4)]
    found = np.concatenate([each["p"] for each in filled(placed(parts))])
    assert found.tolist() == [1.0, 2.0, 3.0]
