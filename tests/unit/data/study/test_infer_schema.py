"""Schemas from rows: by rule, by choice, and the same from every format."""

from pathlib import Path

import pandas as pd
import pytest

from heterps.data import csv, frame, open_dataset, parquet, tsv
from heterps.data.core.formats import guess_format
from heterps.errors import DataError

ROWS = [(i, f"c{i % 3}", 20 + i % 50, 10_000 + 7 * i, (i % 7) / 7 - 0.4, i % 2) for i in range(400)]
FRAME = pd.DataFrame(ROWS, columns=["row", "city", "age", "user", "score", "Click"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    FRAME.to_csv(tmp_path / "a.csv")  # with an index that has no name
    return tmp_path / "a.csv"


def test_every_decision_that_may_surprise_is_one_line(path: Path) -> None:
    data = csv(path)
    assert data.schema.names == ("ids", "x", "y")
    assert data.schema["ids"].labels == ("city", "user")
    assert data.schema["x"].labels == ("age", "score")
    assert data.study is not None
    assert data.study.notes == (
        "'': ignored (it has no name: the index of a frame)",
        "'row': ignored (it numbers the rows)",
        "'age': a number (standardised)",
        "'user': a category (integers of 400 different values are codes)",
    )


def test_files_and_frames_are_inferred_alike(path: Path, tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    FRAME.to_csv(tmp_path / "b.csv", sep=";", index=False)
    FRAME.to_csv(tmp_path / "c.tsv", sep="\t", index=False)
    wanted = csv(path).schema
    for data in (frame(FRAME), parquet(tmp_path / "a.parquet"), csv(tmp_path / "b.csv"), tsv(tmp_path / "c.tsv")):
        assert data.schema == wanted
        assert data.guessed
    assert open_dataset(tmp_path / "c.tsv").schema == wanted


def test_choices_go_before_rules(path: Path) -> None:
    data = csv(path, label="age", weight="score", categorical=["row"], numeric="user", ignore=("Click",))
    assert [(column.name, column.labels) for column in data.schema] == [
        ("ids", ("row", "city")),
        ("x", ("user",)),
        ("y", ("age",)),
        ("weight", ("score",)),
    ]
    assert "label" not in vars(data)


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"label": "clck"}, "no column 'clck' to be the label; there are , row, city"),
        ({"ignore": ["x9"]}, "no column 'x9' to be ignored"),
        ({"weight": "age", "numeric": ["age"]}, "'age' cannot be the weight and numeric"),
        ({"categorical": 5}, "categorical takes names of columns, got 5"),
        ({"label": ["a"]}, "label is the name of one column"),
    ],
    ids=range(5),
)
def test_choices_that_cannot_be_are_named(path: Path, choices: dict[str, object], says: str) -> None:
    for reader in (csv, open_dataset):
        with pytest.raises(DataError, match=says):
            reader(path, **choices)  # type: ignore[operator]


def test_a_file_that_changes_further_on_is_seen(tmp_path: Path) -> None:
    lines = [f"{i % 9},0" for i in range(200_000)]
    lines[120_000:] = [f"n{i % 9},1" for i in range(80_000)]
    (tmp_path / "sorted.csv").write_text("\n".join(["code,y", *lines, ""]))
    assert csv(tmp_path / "sorted.csv").schema["ids"].labels == ("code",)
    for i in range(3):
        (tmp_path / f"part{i}.csv").write_text("code,y\n" + ("n1,1\n" if i == 2 else "5,0\n") * 9)
    assert csv(tmp_path / "part*.csv").schema["ids"].labels == ("code",)


def test_what_programs_write_besides_commas(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"city, state", "n" , y\n"Oslo, N", 7, 1\n"Bern, B", NA, 0\n')
    data = csv(tmp_path / "a.csv")
    assert data.source_names == ("city, state", "n", "y")
    assert data.trim
    (batch,) = data.read(data.splits()[0], batch_size=9)
    assert batch["x"].tolist() == [[0.0], [0.0]]  # its mean, and a missing one
    assert batch["y"].tolist() == [1.0, 0.0]


def test_a_first_line_of_data_is_remarked_on(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("196\t242\t3\n186\t302\t3\n22\t377\t1\n244\t51\t2\n")
    data = tsv(tmp_path / "a.tsv")
    assert data.study is not None
    assert "looks like data: name the columns (--columns)" in data.study.notes[-1]
    assert tsv(tmp_path / "a.tsv", columns=["user", "item", "y"]).schema["ids"].width == 2
    (tmp_path / "b.csv").write_text("5,5,1\n")
    with pytest.raises(DataError, match=r"both called '5'.*looks like data"):
        csv(tmp_path / "b.csv")


def test_forty_columns_with_a_header_are_not_criteo(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\t".join(f"c{i}" for i in range(40)) + "\n")
    assert guess_format(tmp_path / "a.txt") == "tsv"
    (tmp_path / "b.txt").write_text("\t".join(["1"] * 40) + "\n")
    assert guess_format(tmp_path / "b.txt") == "criteo"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_that_lost_digits_as_floats_are_remarked_on(tmp_path: Path, suffix: str) -> None:
    ids = [float(2**60 + 1000 * n) if n % 9 else None for n in range(300)]
    rows = pd.DataFrame(
        {"user_id": ids, "small_id": [7.0, None, 9.0] * 100, "mass": [1e30] * 300, "y": [0, 1, 1] * 100}
    )
    (rows.to_csv if suffix == "csv" else rows.to_parquet)(tmp_path / f"a.{suffix}", index=False)
    data = (csv if suffix == "csv" else parquet)(tmp_path / f"a.{suffix}")
    (note,) = (note for note in data.study.notes if "2^53" in note)
    assert note.startswith("'user_id' holds floats beyond 2^53: ids that large lost their last digits")
    whole = pd.DataFrame({"user_id": pd.array([2**60 + n for n in range(300)], "Int64"), "y": [0, 1, 1] * 100})
    assert not any("2^53" in note for note in frame(whole).study.notes)


def test_a_label_that_is_always_the_same_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,y\n" + "u,1\n" * 20)
    assert any("'y': the label (the same in every row" in note for note in csv(tmp_path / "a.csv").study.notes)


def test_no_rows_and_no_header_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,y\n")
    with pytest.raises(DataError, match=r"from .*a\.csv: it has no rows"):
        csv(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,b,y\n1,2\n")
    with pytest.raises(DataError, match="none of the 1 rows looked at has 3 columns"):
        csv(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("Oslo,5.12,0\nRoma,3.1,1\n")
    with pytest.raises(DataError, match=r"no column 'y' to be the label.* name the columns \(--columns\)"):
        csv(tmp_path / "a.csv", label="y")
