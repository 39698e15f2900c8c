"""Rows that cannot be used are never silent: counted, kept in place, and an error where nothing else is left."""

import logging
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import heterps as hps
from heterps import ops
from heterps.data import Category, Number, Schema, csv, dense, label, sparse
from heterps.errors import DataError, GraphError
from heterps.runtime.report.progress import Progress

FIELDS = Schema.of(sparse("ids", Category("a")), dense("x", Number("b")), label("y", Number("y")))
LINES = ["u,1,1", "v,2,0", "w,oops,1", "u,3,", "v,4,1", "too,many,columns,here", "w,5,2", "u,6,0"]
GOOD = [0, 1, 4, 7]


def plan() -> hps.Plan:
    ids, x, y = ops.input("ids", shape=(1,), dtype="uint64"), ops.input("x", shape=(1,)), ops.input("y")
    h = ops.concat(ops.lookup(ids, table="t", dim=2, name="vector"), x)
    return hps.Plan.fused(hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), y)), batch_size=2)


def rows(folder: Path, lines: list[str] = LINES, **options: int) -> hps.Dataset:
    (folder / "a.csv").write_text("".join(f"{line}\n" for line in ["a,b,y", *lines]))
    return csv(folder / "a.csv", FIELDS, **options)


@pytest.fixture(params=["inline", "dask"])
def session(request):
    with hps.launch(plan(), engine=request.param) as made:
        yield made


@pytest.fixture
def inline():
    with hps.launch(plan(), engine="inline") as made:
        yield made


def test_training_counts_bad_rows_once_a_pass(tmp_path, session):
    last = session.fit(rows(tmp_path), epochs=2, valid=rows(tmp_path))
    assert (last.samples, last.bad_rows) == (2 * 4, 2 * 4)
    assert last.valid["bad_rows"] == 4
    assert "8 bad rows" in str(last)
    assert "valid 4 bad rows" in str(last)
    assert last.bad_row == f"{tmp_path}/a.csv, line 4: not a finite number in column 'b': 'w,oops,1'"


def test_the_limit_is_for_a_split(tmp_path, inline):
    data = rows(tmp_path, ["u,1,1", "v,oops,0"] * 40, split_cost=64).on_bad(limit=12)
    assert len(data.splits()) > 4
    assert inline.fit(data).bad_rows == 40


def test_reading_a_split_again_does_not_count_again():
    book = hps.data.BadBook(hps.data.BadInput())
    row = hps.data.BadRow("a", 1, 0, "bad", "")
    for _ in range(2):
        account = book.open(0, 3)
        account.add(row)
        account.add(row)
    book.open(0, 3).add(row)  # has not come as far yet
    assert book.counts() == {(0, 3): 2}


def test_a_report_before_the_first_batch_tells_of_bad_rows():
    report = Progress(1, 1, 0, 0, 0.0, 0.0, float("nan"), bad_rows=3)
    assert str(report) == "epoch 1/1 | no batch trained yet | 3 bad rows"


@pytest.mark.parametrize("lines", [["u,oops,1"] * 5, []], ids=["all bad", "none"])
def test_nothing_to_train_on_is_an_error_unless_allowed(tmp_path, session, lines):
    data = rows(tmp_path, lines)
    said = r"every row is bad.*\n.*line 2: not a finite number in column 'b'" if lines else "the data has no rows"
    with pytest.raises(DataError, match=f"nothing was trained on: {said}"):
        session.fit(data)
    with pytest.raises(DataError, match=f"nothing was evaluated: {said}"):
        session.evaluate(data, ["logloss"])
    assert session.fit(data, allow_empty=True).samples == 0
    assert session.evaluate(data, ["logloss"], allow_empty=True).get("bad_rows", 0) == len(lines)


def test_what_is_left_of_a_resumed_run_may_be_nothing(tmp_path):  # what was trained before counts
    options = {"engine": "inline", "checkpoint": tmp_path / "run"}
    trained = rows(tmp_path)
    with hps.launch(plan(), **options) as session:
        session.fit(trained)
    with hps.launch(plan(), resume=tmp_path / "run", **options) as session:
        assert session.fit(trained).samples == 4


def test_evaluation_counts_them(tmp_path, session):
    assert session.evaluate(rows(tmp_path), ["logloss"])["bad_rows"] == 4
    assert "bad_rows" not in session.evaluate(rows(tmp_path, [LINES[i] for i in GOOD]), ["logloss"])


# --- predictions line up

READABLE = [i for i in range(len(LINES)) if i not in (2, 5)]  # labels do not matter


def test_predictions_line_up_with_the_input(tmp_path, session, caplog):
    good = session.predict(rows(tmp_path, [LINES[i] for i in READABLE]), fetch=["prediction", "x"])
    with caplog.at_level(logging.WARNING, "heterps"):
        all_ = session.predict(rows(tmp_path, LINES), fetch=["prediction", "x"])
    assert "2 rows could not be read" in caplog.text
    assert "line 4" in caplog.text
    for name in ("prediction", "x"):
        assert len(all_[name]) == len(LINES)
        assert np.array_equal(all_[name][READABLE], good[name])
        assert np.isnan(all_[name][[2, 5]]).all()


@pytest.mark.parametrize("cost", [1 << 20, 40, 16])
def test_a_file_of_predictions_lines_up_and_says_why(tmp_path, inline, cost):
    lines = ["u,bad,1", *LINES, "v,bad,1", "v,worse,1"]
    fetch = ["prediction", "vector", "ids", "x", "y"]
    inline.predict(rows(tmp_path, lines, split_cost=cost), out=tmp_path / "out.parquet", fetch=fetch)
    table = pq.read_table(tmp_path / "out.parquet")
    bad = [i for i in range(len(lines)) if i not in [k + 1 for k in READABLE]]
    assert table.num_rows == len(lines)
    for name in fetch:
        assert [i for i, v in enumerate(table[name].to_pylist()) if v is None] == bad
    reasons = table["bad_row"].to_pylist()
    assert [i for i, reason in enumerate(reasons) if reason] == bad
    assert "a.csv, line 2: not a finite number in column 'b'" in reasons[0]
    assert [v[0] for v in table["x"].to_pylist() if v] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_what_cannot_be_nan_cannot_have_gaps_in_memory(tmp_path, inline):
    with pytest.raises(DataError, match=r"'ids' has no value that could stand for a bad row.*line 4.*out=\.\.\."):
        inline.predict(rows(tmp_path), fetch="ids")


def test_nothing_but_bad_rows_is_an_error(tmp_path, inline):
    data = rows(tmp_path, ["u,oops,1"] * 5)
    for out in (None, tmp_path / "out.parquet"):
        with pytest.raises(DataError, match=r"all 5 are bad, the first is .*line 2"):
            inline.predict(data, out=out)
    assert not (tmp_path / "out.parquet").exists()


def test_the_column_of_reasons_is_taken(tmp_path, inline):
    with pytest.raises(GraphError, match="'bad_row' is the column of reasons"):
        inline.predict(rows(tmp_path), out=tmp_path / "out.parquet", fetch={"bad_row": "prediction"})


def test_a_reader_that_does_not_say_where_is_refused(tmp_path, inline, monkeypatch):
    from heterps.data.core.bad import BadRow
    from heterps.data.text import lines

    def nowhere(*args: object) -> BadRow:
        return BadRow(*args[:5])  # type: ignore[arg-type]

    monkeypatch.setattr(lines, "BadRow", nowhere)
    with pytest.raises(DataError, match="cannot line up"):
        inline.predict(rows(tmp_path))


def test_predictions_need_no_label(tmp_path, inline):
    assert len(inline.predict(rows(tmp_path, ["u,1,", "v,2,?"][:1] * 3))) == 3


# --- labels that a loss can use


def test_class_numbers_are_those_of_the_model(tmp_path):
    x, y = ops.input("x", shape=(1,)), ops.input("y", dtype="int64")
    graph = hps.Graph(loss=ops.softmax_cross_entropy(ops.dense(x, 3, name="out"), y))
    data = hps.arrays({"x": np.ones((6, 1)), "y": np.array([0, 1, 2, 3, -1, np.nan], np.float32)})
    with hps.launch(hps.Plan.fused(graph, batch_size=2), engine="inline") as session:
        last = session.fit(data)
    assert (last.samples, last.bad_rows) == (3, 3)
