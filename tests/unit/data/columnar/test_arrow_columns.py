"""Arrow columns as what recipes take of them."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from heterps.data.columnar.arrow_columns import ArrowColumn


def hashes(values: list[float | None], kind: pa.DataType) -> list[int]:
    found: list[int] = np.asarray(ArrowColumn("c", pa.array(values, kind)).hashes(7)).tolist()
    return found


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@example([0.25, 1e10, -0.0, math.nan, None])
@example([math.inf, -(2.0**63), 2.0**63, 1e18])
@given(st.lists(st.none() | st.floats(width=32) | st.integers(-(2**24), 2**24).map(lambda n: n * 2.0**20), max_size=6))
def test_a_float_is_the_same_category_whatever_stands_beside_it(kind: pa.DataType, values: list[float | None]) -> None:
    assert hashes(values, kind) == [found for value in values for found in hashes([value], kind)]


def test_a_whole_float_is_the_category_of_the_integer() -> None:
    assert hashes([0.5, 1e10], pa.float64())[1:] == hashes([10**10], pa.int64())
