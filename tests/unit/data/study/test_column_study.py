"""What columns are taken for, rule by rule; the same cells as text and as typed columns."""

import numpy as np
import pyarrow as pa
import pytest

from heterps.data import Category, Match, Number
from heterps.data.study.arrow_looks import look_at_arrow
from heterps.data.study.column_study import ColumnLook, look_at_text, study_feature, study_label
from heterps.errors import DataError

RNG = np.random.default_rng(0)


def text(values: object) -> ColumnLook:
    return look_at_text("c", [str(value) for value in values])  # type: ignore[attr-defined]


CASES = {
    "names": (["a", "b", ""] * 9, "category", "text"),
    "ages": (RNG.integers(18, 90, 500), "number", "standardised: mean 5"),
    "flags": ([0, 1] * 50, "number", "as it stands"),
    "scaled": (RNG.normal(size=300).round(4), "number", "as it stands"),
    "heights": (RNG.normal(170, 10, 300).round(2), "number", "standardised: mean 1"),
    "codes": (RNG.integers(0, 900, 2000), "category", "different values are codes"),
    "far apart": ([100000, 7, 250, 7] * 30, "category", "lie far apart"),
    "hashes of digits": (RNG.integers(10**17, 10**18, 50), "category", "lie far apart"),
    "zip codes": (["01187", "80331"] * 20, "category", "leading zeros"),
    "counts": (np.round(10 ** RNG.exponential(0.9, 2000)).astype(int), "number", "a long tail"),
    "row numbers": (range(7, 400), "ignored", "numbers the rows"),
    "nothing": ([""] * 20, "ignored", "empty"),
    "dates": (["2026-01-02 03:04:05", "2026-01-03"] * 60, "category", "dates as text"),
    "names of rows": ([f"r{i}" for i in range(150)], "category", "another in each row"),
    "numbers or NA": ([1.5, "NA", "nan", "", "?"] * 9, "number", "standardised"),
    "words and NA": (["a", "NA"] * 9, "category", "text"),
    "too many dates": ([f"2026-01-{1 + i % 28:02} {i // 28:02}:00" for i in range(280)], "category", "hour or weekday"),
    "infinite": (["inf", "1.5", "-Infinity", "2"] * 5, "number", "standardised"),
    "huge": ([1.7e308, -1e308, 0.5] * 9, "number", "standardised"),
    "too long to be a number": (["9" * 5000, "1"] * 5, "category", "text"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_column_of_text_is_taken_for(name: str) -> None:
    values, role, why = CASES[name]
    found = study_feature(text(values))
    assert (found.role, why in found.why) == (role, True), found
    assert (found.recipe is None) == (role == "ignored")


@pytest.mark.parametrize("name", ["ages", "flags", "scaled", "heights", "codes", "counts", "row numbers"])
def test_typed_columns_are_taken_for_the_same(name: str) -> None:
    values, _, _ = CASES[name]
    typed = study_feature(look_at_arrow("c", pa.chunked_array([pa.array(values)])))
    written = study_feature(text(values))
    assert (typed.role, typed.recipe, typed.why) == (written.role, written.recipe, written.why)


def test_the_scale_is_that_of_the_numbers() -> None:
    recipe = study_feature(text([10, 20, 30, 40])).recipe
    assert recipe == Number("c", mean=25.0, std=11.1803)
    log = study_feature(text([0] * 60 + [9000, *range(40)])).recipe
    assert isinstance(log, Number)
    assert log.log
    assert log.mean == pytest.approx(np.mean(np.log1p([0] * 60 + [9000, *range(40)])), rel=1e-5)


@pytest.mark.parametrize(
    ("column", "role", "why"),
    [
        (pa.array(["a", "b"] * 9).dictionary_encode(), "category", "by its type"),
        (pa.array([5, 6] * 9).dictionary_encode(), "category", "by its type"),
        (pa.array([815, 4711] * 9).cast(pa.string()), "category", "text"),
        (pa.array([True, False, None]), "number", "as it stands"),
        (pa.array([[1], [2, 3]]), "ignored", "lists"),
        (pa.array([1, 2], pa.timestamp("s")), "category", "dates"),
        (pa.nulls(5), "ignored", "empty"),
        (pa.array([*map(float, range(300)), float("nan")] * 2), "category", "300 different values are codes"),
        (pa.array([0.5, 2.5, float("nan")]), "number", "standardised"),
        (pa.array([], pa.int64()), "number", "as it stands"),
        (pa.array([], pa.string()), "category", "text"),
    ],
    ids=range(11),
)
def test_declared_types_say_more_than_cells(column: pa.Array, role: str, why: str) -> None:
    found = study_feature(look_at_arrow("c", pa.chunked_array([column])))
    assert (found.role, why in found.why) == (role, True), found


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_the_index_of_a_frame_is_ignored(name: str) -> None:
    assert study_feature(look_at_text(name, ["5", "3", "9"])).role == "ignored"


@pytest.mark.parametrize(
    ("cells", "recipe"),
    [
        (["0", "1"], Number("y")),
        (["-1", "1"], Number("y", mean=-1.0, std=2.0)),
        (["1", "2", "1"], Number("y", mean=1.0, std=1.0)),
        (["1", "2", "5"], Number("y")),
        (["no", "yes", "yes"], Match("y", "yes")),
        (["True", "False", "True"], Number("y")),
        (["<=50K", ">50K", "<=50K"], Match("y", ">50K")),
        (["3.5", "1"], Number("y")),
    ],
    ids=range(8),
)
def test_two_values_become_a_label(cells: list[str], recipe: object) -> None:
    assert study_label(look_at_text("y", cells)).recipe == recipe


@pytest.mark.parametrize("name", ["id", "user_id", "userId", "movieID", "User", "zip", "ad code"])
def test_integers_called_so_are_codes(name: str) -> None:
    assert study_feature(look_at_text(name, ["1", "2", "3"])).role == "category"
    assert study_feature(look_at_text(name, ["1.5", "2", "3"])).role == "number"
    assert study_feature(look_at_text(f"{name}s seen", ["1", "2", "3"])).role == "number"


def test_a_category_keeps_its_name() -> None:
    assert study_feature(text(["a"])).recipe == Category("c")


def test_bytes_that_are_said_to_be_text_are_refused_by_the_name_of_their_column() -> None:
    odd = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\3\0\0\0"), pa.py_buffer(b"\x80|q")])
    with pytest.raises(DataError, match=r"column 'c' has text that is not UTF-8 .*: write it as UTF-8"):
        look_at_arrow("c", pa.chunked_array([odd]))
