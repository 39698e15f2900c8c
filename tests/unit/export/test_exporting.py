"""Exported rows are the session's rows: in full, as base and changes, as the vendors' delta; and files are checked."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import heterps as hps
from heterps import ops
from heterps.errors import CheckpointError, OutputError
from heterps.export import export_model
from heterps.serving.manifest import Export, exports_of, newest
from heterps.serving.served_model import ServedModel
from heterps.tables import CountEntry, CtrAccessor
from heterps.testing import small_model


def aged_graph() -> hps.Graph:
    """A table whose rows are counted, aged and deleted."""
    ids, y = ops.input("ids", (3,), "uint64"), ops.input("y")
    accessor = CtrAccessor(embed=1, base_threshold=1.0, delta_threshold=0.5, delete_threshold=0.9, embedx_threshold=0)
    rows = ops.lookup(ids, table="t", dim=4, accessor=accessor.to_json())
    return hps.Graph(loss=ops.logloss(ops.dense(ops.concat(rows), 1), y))


def part(low: int, high: int) -> hps.Dataset:
    """Rows of the small model with ids of some picks only, so that training touches part of the table."""
    columns = small_model.columns(400)
    keep = ((columns["ids"] % 1000 >= low) & (columns["ids"] % 1000 < high)).all(axis=1)
    return hps.arrays({name: column[keep] for name, column in columns.items()})


def launched(graph: hps.Graph | None = None) -> hps.Session:
    return hps.launch(hps.Plan.fused(graph or small_model.graph(), batch_size=32), engine="inline", mode="sync")


def rows_of(folder: Path) -> dict[str, dict[int, list[float]]]:
    """Return all rows of an exported model by group and id."""
    model = ServedModel(newest(folder))
    return {
        name: dict(zip(rows.ids().tolist(), rows(rows.ids()).tolist(), strict=True))
        for name, rows in model.rows.items()
    }


def test_base_and_changes_are_the_full_export_row_by_row(tmp_path: Path) -> None:
    with launched() as session:
        session.fit(part(0, 20))
        session.export(tmp_path / "a", kind="changes")
        for low in (10, 25):
            session.fit(part(low, low + 12))
            session.export(tmp_path / "a", kind="changes")
        session.export(tmp_path / "b")
    found = [Export.read(folder) for folder in exports_of(tmp_path / "a")]
    assert [export.kind for export in found] == ["full", "changes", "changes"]
    assert found[1].size < found[0].size
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")
    assert ServedModel(newest(tmp_path / "a")).rows["vectors+wide"].generations == 3


def test_deleted_rows_are_gone_after_changes(tmp_path: Path) -> None:
    with launched(aged_graph()) as session:
        session.fit(part(0, 20))
        session.export(tmp_path / "a", kind="changes")
        before = rows_of(tmp_path / "a")["t"]
        for _ in range(3):
            gone = session.shrink()
        session.fit(part(30, 36))
        session.export(tmp_path / "a", kind="changes")
        session.export(tmp_path / "b")
    after = rows_of(tmp_path / "a")["t"]
    assert gone >= 0
    assert set(before) - set(after)
    assert set(after) - set(before)
    assert after == rows_of(tmp_path / "b")["t"]


def test_changes_of_another_run_are_exported_in_full(tmp_path: Path) -> None:
    with launched() as session:
        session.fit(part(0, 20))
        session.export(tmp_path / "a", kind="changes")
    with launched() as session:
        session.fit(part(0, 10))
        assert Export.read(session.export(tmp_path / "a", kind="changes")).kind == "full"
        same = session.export(tmp_path / "b")
    assert rows_of(tmp_path / "a") == rows_of(same)


def test_nothing_new_makes_no_generation(tmp_path: Path) -> None:
    with launched() as session:
        session.fit(part(0, 20))
        session.save(tmp_path / "model")
    first = export_model(tmp_path / "model", tmp_path / "a", kind="changes")
    assert export_model(tmp_path / "model", tmp_path / "a", kind="changes") == first


def test_the_vendors_delta_and_base(tmp_path: Path) -> None:
    with launched(aged_graph()) as session:
        session.fit(part(0, 40))
        session.export(tmp_path / "a", kind="base")
        base = rows_of(tmp_path / "a")["t"]
        session.fit(part(10, 25))
        session.export(tmp_path / "a", kind="delta")
        session.export(tmp_path / "b")
    whole, mixed = rows_of(tmp_path / "b")["t"], rows_of(tmp_path / "a")["t"]
    assert [Export.read(folder).kind for folder in exports_of(tmp_path / "a")] == ["base", "delta"]
    assert 0 < len(base) < len(whole)  # rows that were shown too little are left out
    changed = {i for i in mixed if mixed[i] != base.get(i)}
    assert changed
    assert all(mixed[i] == whole[i] for i in changed)
    assert all(mixed[i] == base[i] for i in set(mixed) - changed)


def test_rows_without_embedx_and_ids_that_wait_are_scored_as_by_the_session(tmp_path: Path) -> None:
    ids, y = ops.input("ids", (3,), "uint64"), ops.input("y")
    accessor = CtrAccessor(embed=1, embedx_threshold=4.0)
    rows = ops.lookup(ids, table="t", dim=4, accessor=accessor.to_json())
    seen = ops.lookup(ids, table="u", dim=2, entry=CountEntry(6).to_json(), accessor=accessor.to_json())
    graph = hps.Graph(loss=ops.logloss(ops.dense(ops.concat(rows, seen), 1), y))
    columns = small_model.columns(60, seed=4)
    with launched(graph) as session:
        session.fit(part(0, 40))
        session.export(tmp_path / "a", onnx="no")
        wanted = session.predict(hps.arrays(columns))
    found = rows_of(tmp_path / "a")
    assert any(not any(row[1:4]) for rows in found.values() for row in rows.values())  # some have no embedx yet
    np.testing.assert_allclose(hps.Predictor(tmp_path / "a")(columns), wanted, atol=1e-6)


def test_a_broken_export_is_replaced_by_a_full_one(tmp_path: Path) -> None:
    with launched() as session:
        session.fit(part(0, 10))
        session.save(tmp_path / "model")
    (export_model(tmp_path / "model", tmp_path / "a", onnx="no") / "export.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"export.json is not of format"):
        export_model(tmp_path / "model", tmp_path / "a", kind="changes", onnx="no")
    export_model(tmp_path / "model", tmp_path / "a", onnx="no")
    assert hps.Predictor(tmp_path / "a")(small_model.columns(2)).shape == (2,)


def test_a_delta_needs_something_to_build_on(tmp_path: Path) -> None:
    with launched(aged_graph()) as session:
        session.fit(part(0, 40))
        with pytest.raises(CheckpointError, match="a delta replaces rows of an export"):
            session.export(tmp_path / "a", kind="delta")
        session.export(tmp_path / "a")
    with pytest.raises(CheckpointError, match="no delta save newer than"):
        export_model(tmp_path / "a" / "source", tmp_path / "a", kind="delta")


@pytest.mark.parametrize("format_", ["arrow", "parquet"])
@pytest.mark.parametrize("rows", ["float32", "float16", "int8"])
def test_formats_and_encodings(format_: Any, rows: Any, tmp_path: Path) -> None:
    columns = small_model.columns(50, seed=1)
    with launched() as session:
        session.fit(part(0, 40))
        session.save(tmp_path / "model")
        wanted = session.predict(hps.arrays(columns))
    export_model(tmp_path / "model", tmp_path / "a", format=format_, rows=rows, onnx="no")
    np.testing.assert_allclose(hps.Predictor(tmp_path / "a")(columns), wanted, atol={"float32": 1e-6}.get(rows, 2e-3))
    exact = rows_of(export_model(tmp_path / "model", tmp_path / "b", onnx="no"))["vectors+wide"]
    found = rows_of(tmp_path / "a")["vectors+wide"]
    assert found.keys() == exact.keys()
    for some, row in zip(found.values(), exact.values(), strict=True):
        room = {"float32": 0, "float16": 2**-10, "int8": 1 / 127}[rows] * max(map(abs, row))
        np.testing.assert_allclose(some, row, rtol=0, atol=room)


def test_rows_lie_in_ordinary_files(tmp_path: Path) -> None:
    with launched() as session:
        session.fit(part(0, 40))
        folder = session.export(tmp_path / "a", "parquet", onnx="no")
    table = pq.read_table(folder / "rows-000-0000.parquet")
    assert table.schema.names == ["id", "vectors", "wide"]
    ids = table["id"].to_numpy()
    assert (np.diff(ids.astype(np.int64)) > 0).all()
    assert table["vectors"].type.list_size == 4


def test_a_file_holds_the_rows_of_some_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with launched() as session:
        session.fit(part(0, 40))
        session.save(tmp_path / "model")
    whole = export_model(tmp_path / "model", tmp_path / "a", onnx="no")
    monkeypatch.setattr("heterps.export.row_writing.FILE_BYTES", 500)
    parts = export_model(tmp_path / "model", tmp_path / "b", onnx="no")
    assert len(Export.read(parts).files_of("vectors+wide")) > 3
    assert rows_of(parts) == rows_of(whole)
    columns = small_model.columns(30)
    np.testing.assert_array_equal(hps.Predictor(parts)(columns), hps.Predictor(whole)(columns))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    with launched() as session:
        session.fit(part(0, 40))
        session.export(folder / "a")
    shutil.rmtree(folder / "a" / "source")
    return folder / "a"


def test_two_generations_stay(tmp_path: Path) -> None:
    with launched() as session:
        session.fit(part(0, 10))
        session.save(tmp_path / "model")
    for _ in range(4):
        export_model(tmp_path / "model", tmp_path / "a", onnx="no")
    assert [folder.name for folder in exports_of(tmp_path / "a")] == ["00000003", "00000004"]


@pytest.mark.parametrize("name", ["export.json", "rows-000-0000.arrow", "dense.parquet", "dense.onnx"])
def test_damage_is_found(exported: Path, name: str, tmp_path: Path) -> None:
    shutil.copytree(exported, tmp_path / "a")
    path = tmp_path / "a" / "00000001" / name
    whole = path.read_bytes()
    for data in (
        whole[:-9],
        whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :],
    ):
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=name):
            hps.Predictor(tmp_path / "a", verify=True)
    path.unlink()
    with pytest.raises(CheckpointError):
        hps.Predictor(tmp_path / "a", verify=True)


def test_what_is_no_export_is_named(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is no exported model: it has nothing"):
        hps.Predictor(tmp_path)
    with pytest.raises(CheckpointError, match="kind of an export is one of full, changes, delta, base, not 'all'"):
        export_model(tmp_path, tmp_path / "a", kind="all")  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        export_model(exported, tmp_path / "file")
    with pytest.raises(CheckpointError, match="is not a saved model"):
        export_model(exported, tmp_path / "a")


def test_a_hostile_manifest_leads_nowhere_else(exported: Path, tmp_path: Path) -> None:
    from heterps.tables.snapshots.sealed import sealed

    shutil.copytree(exported, tmp_path / "a")
    path = tmp_path / "a" / "00000001" / "export.json"
    value = json.loads(path.read_text())
    value.pop("sha256")
    value["files"][0]["name"] = "../../secret"
    path.write_text(sealed(value))
    with pytest.raises(CheckpointError, match="its files lie in its own folder"):
        hps.Predictor(tmp_path / "a")
