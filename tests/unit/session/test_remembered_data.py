"""A model remembers its data: columns are found by name, types are not guessed again, rows are taken as they come."""

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heterps as hps
from heterps import ops
from heterps.data import (
    Bucket,
    Categories,
    Category,
    DataForm,
    Match,
    Number,
    Schema,
    csv,
    dense,
    frame,
    label,
    parquet,
    ragged,
    slot_text,
    sparse,
)
from heterps.errors import CheckpointError, DataError, GraphError

FIELDS = Schema.of(
    sparse("ids", Category("city"), Bucket("age", (18.0, 40.0))),
    dense("x", Number("age", mean=40, std=12), Number("visits", log=True)),
    ragged("tags", Categories("tags", separator=";")),
    label("y", Match("outcome", "bought")),
)
HEADER = ["city", "age", "visits", "tags", "outcome", "user"]
CITIES = ["Oslo", "Rome", "815", "4711"]  # two of them look like numbers


def graph() -> hps.Graph:
    ids, x = ops.input("ids", (2,), "uint64"), ops.input("x", (2,))
    tags = ops.lookup(ops.input("tags", dtype="uint64", ragged=True), table="tags", dim=2)
    h = ops.concat(ops.lookup(ids, table="t", dim=3), ops.sequence_mean(tags), x)
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), ops.input("y")))


def cells(seed: int, rows: int = 60) -> list[dict[str, str]]:
    rng = np.random.default_rng(seed)
    made = []
    for i in range(rows):
        city = CITIES[rng.integers(4)]
        values = [city, str(rng.integers(10, 80)), str(rng.integers(0, 999)), "a;b" if i % 3 else "", "", f"u{i}"]
        values[4] = "bought" if (city in CITIES[:2]) == (rng.random() < 0.9) else "left"
        made.append(dict(zip(HEADER, values, strict=True)))
    return made


def write(path: Path, rows: list[dict[str, str]], names: list[str] = HEADER) -> Path:
    path.write_text("\n".join([",".join(names), *(",".join(row[name] for name in names) for row in rows), ""]))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remembered")
    rows = cells(1)
    with hps.launch(hps.Plan.fused(graph(), batch_size=16), engine="inline") as session:
        session.fit(csv(write(folder / "train.csv", rows), FIELDS), epochs=3)
        session.save(folder / "model")
    return folder / "model"


@pytest.fixture
def session(model: Path):
    with hps.load(model, engine="inline") as made:
        yield made


def test_the_form_is_in_the_model_as_plain_text(model: Path) -> None:
    value = json.loads((model / "model.json").read_text())["data"]
    assert DataForm.from_json(value).fields == FIELDS
    assert {"kind": "number", "source": "age", "log": False, "mean": 40, "std": 12, "missing": None} in value["fields"][
        1
    ]["of"]


def test_a_form_that_was_edited_is_refused(model: Path, tmp_path: Path) -> None:
    text = (model / "model.json").read_text()
    assert '"mean": 40' in text
    (tmp_path / "model.json").write_text(text.replace('"mean": 40', '"mean": 41'))
    with pytest.raises(CheckpointError, match="damaged or was edited"):
        hps.load(tmp_path, engine="inline")


def test_columns_are_found_by_name_in_any_order_and_format(session: hps.Session, tmp_path: Path) -> None:
    rows = cells(2)
    names = [*reversed(HEADER)]
    wanted = session.predict(csv(write(tmp_path / "a.csv", rows), FIELDS))
    backwards = write(tmp_path / "b.csv", rows, names)
    pq.write_table(pa.table({name: [row[name] for row in rows] for name in names}), tmp_path / "c.parquet")
    (tmp_path / "d.tsv").write_text((tmp_path / "b.csv").read_text().replace(",", "\t"))
    for given in (backwards, str(backwards), csv(backwards), tmp_path / "c.parquet", parquet(tmp_path / "c.parquet")):
        np.testing.assert_array_equal(session.predict(given), wanted)
    np.testing.assert_array_equal(session.predict(tmp_path / "d.tsv"), wanted)
    np.testing.assert_array_equal(session.predict(csv(backwards).persist()), wanted)
    assert session.evaluate(backwards) == session.evaluate(tmp_path / "a.csv")


def test_types_are_not_guessed_again(session: hps.Session, tmp_path: Path) -> None:
    rows = [row for row in cells(3) if row["city"].isdigit()][:5]  # a file in which each city is a number
    some = write(tmp_path / "digits.csv", rows)
    assert csv(some).schema["x"].width == 3
    np.testing.assert_array_equal(session.predict(csv(some)), session.predict(csv(some, FIELDS)))


def test_rows_come_in_any_shape(session: hps.Session, tmp_path: Path) -> None:
    rows = cells(4, 6)
    wanted = session.predict(csv(write(tmp_path / "a.csv", rows), FIELDS))
    texts = pd.DataFrame(rows)
    typed = texts.assign(age=texts["age"].astype(int), visits=texts["visits"].astype(float))
    for given in (
        rows,
        iter(rows),
        "\n".join(map(json.dumps, rows)),
        "\n".join(map(json.dumps, rows)).encode(),
        texts,
        typed,
        typed[[*reversed(typed.columns)]],
        pa.Table.from_pandas(typed),
        pa.Table.from_pandas(typed).to_batches()[0],
        {name: [row[name] for row in rows] for name in HEADER},
    ):
        np.testing.assert_array_equal(session.predict(given), wanted)
    np.testing.assert_array_equal(session.predict(rows[0]), wanted[:1])
    np.testing.assert_array_equal(session.predict({**rows[0], "tags": rows[0]["tags"].split(";")}), wanted[:1])


def test_whole_floats_and_mixed_types_are_the_codes_they_stand_for(session: hps.Session) -> None:
    row = {**cells(5, 1)[0], "city": "4711"}
    wanted = session.predict([row, {**row, "city": None}])
    floats = pd.DataFrame([row, row]).assign(city=[4711.0, np.nan])  # as pandas has integers beside missing ones
    np.testing.assert_array_equal(session.predict(floats), wanted)
    mixed = session.predict(
        [{**row, "city": 4711}, {**row, "city": "Oslo"}, {k: v for k, v in row.items() if k != "city"}]
    )
    np.testing.assert_array_equal(mixed[[0, 2]], wanted)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"city": "Oslo"}, "the frame has no column 'age', of which the model's 'ids' was made"),
        ({"city": "Oslo", "age": [1, 2]}, "neither a row nor columns: 'city' is one value, 'age' several"),
        ([{"city": "Oslo"}, 5], "row 2 is of type int, expected a dict"),
        ([], "there are no rows"),
        ('{"city": "Oslo"}\n{"city": ', "line 2 of the rows is not JSON"),
        (5, "rows are of type int; give a Dataset"),
        ({"city": ["a"], "age": [1, 2]}, "all columns need the same number of rows"),
    ],
    ids=range(7),
)
def test_rows_that_cannot_be_used_are_named(session: hps.Session, rows: object, says: str) -> None:
    with pytest.raises(DataError, match=says):
        session.predict(rows)


@pytest.mark.parametrize("engine", ["inline", "dask"])
def test_source_columns_come_beside_predictions(model: Path, tmp_path: Path, engine: str) -> None:
    rows = cells(6, 50)
    rows[7]["age"], rows[8]["user"] = "old", '"u, 8"'
    path = write(tmp_path / "a.csv", rows)
    path.write_text(path.read_text() + "\none,cell,short\r\n\r\n")
    with hps.load(model, engine=engine) as session:
        data = csv(path, FIELDS, split_cost=150)
        assert len(data.splits()) > 5
        assert session.predict(data, out=tmp_path / "p.parquet", fetch=["user", "prediction", "city"]).exists()
        some = session.predict(rows[:7], fetch={"who": "user", "p": "prediction"})
        with pytest.raises(GraphError, match="fetch something of the model"):
            session.predict(data, fetch="user")
        with pytest.raises(GraphError, match=r"'usr'; there are prediction, .*, user"):
            session.predict(data, fetch="usr")
    found = pq.read_table(tmp_path / "p.parquet")
    assert found.column_names == ["user", "prediction", "city", "bad_row"]
    users = [row["user"].strip('"') for row in rows]
    assert found["user"].to_pylist() == [*users, None]
    assert [i for i, value in enumerate(found["prediction"].to_pylist()) if value is None] == [7, 50]
    assert list(some["who"]) == users[:7]
    np.testing.assert_allclose(some["p"], found["prediction"].to_numpy()[:7], rtol=1e-6)


def test_typed_columns_keep_their_types(session: hps.Session, tmp_path: Path) -> None:
    table = pa.table({name: [row[name] for row in cells(7, 9)] for name in HEADER})
    table = table.append_column("when", pa.array(range(9), pa.timestamp("s")))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    for given in (tmp_path / "a.parquet", table):
        session.predict(given, out=tmp_path / "p.parquet", fetch=["prediction", "when"])
        assert pa.types.is_timestamp(pq.read_table(tmp_path / "p.parquet")["when"].type)


def test_more_training_reads_new_files_as_before(session: hps.Session, tmp_path: Path) -> None:
    more = write(tmp_path / "more.csv", [row for row in cells(8) if row["city"].isdigit()], [*reversed(HEADER)])
    assert session.fit(more, valid=more).samples > 10
    assert session.form is not None
    assert session.form.fields == FIELDS


def test_a_cut_remembers_too(tmp_path: Path) -> None:
    data = csv(write(tmp_path / "train.csv", cells(1)), FIELDS)
    plan = hps.Plan.fused(graph(), batch_size=16)
    with hps.launch(plan, engine="inline", checkpoint=tmp_path / "run") as session:
        session.fit(data)
    with hps.launch(plan, engine="inline", resume=tmp_path / "run", checkpoint=tmp_path / "run") as session:
        assert session.form == DataForm.of(data)
    with hps.load(tmp_path / "run", engine="inline") as session:
        assert len(session.predict(cells(2, 3))) == 3


def test_a_schema_that_was_given_stays_with_a_warning(
    session: hps.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.csv", cells(9))
    other = Schema(tuple(dense("x", Number("age"), Number("visits")) if c.name == "x" else c for c in FIELDS))
    with caplog.at_level(logging.WARNING, "heterps"):
        mine = session.predict(csv(path, other))
    assert "column 'x' is made otherwise than for training: it has Number(source='age'" in caplog.text
    assert not np.allclose(mine, session.predict(csv(path)))


def test_ready_made_columns_need_no_form(session: hps.Session) -> None:
    with hps.launch(hps.Plan.fused(_plain(), batch_size=4), engine="inline") as plain:
        columns = {"ids": np.arange(8).reshape(4, 2), "y": np.ones(4)}
        plain.fit(hps.arrays(columns))
        assert len(plain.predict({"ids": columns["ids"]})) == 4
        with pytest.raises(DataError, match="nothing says how rows"):
            plain.predict([{"city": "Oslo"}])


def _plain() -> hps.Graph:
    h = ops.concat(ops.lookup(ops.input("ids", (2,), "uint64"), table="t", dim=3))
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), ops.input("y")))


def test_slot_text_is_read_by_the_same_style(tmp_path: Path) -> None:
    fields = Schema.of(sparse("ids", Category("3"), Category("4")), label("y", Number("1")))
    (tmp_path / "a.txt").write_text("1:1 a:3 b:4\n0:1 c:3 d:4\n" * 8)
    with hps.launch(hps.Plan.fused(_plain(), batch_size=4), engine="inline") as session:
        session.fit(slot_text(tmp_path / "a.txt", fields, style="value:name"))
        assert len(session.predict(tmp_path / "a.txt")) == 16


def test_frames_are_fitted_as_files_are(session: hps.Session) -> None:
    rows = cells(10, 5)
    table = pd.DataFrame(rows)
    np.testing.assert_array_equal(session.predict(frame(table)), session.predict(rows))
