"""A snapshot that somebody made to do harm: refused by name, in bounded time and memory, nothing outside touched."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps import thrift
from heterps.errors import CheckpointError
from heterps.protocol import BatchKey
from heterps.tables import (
    SGD,
    Adam,
    DenseSpec,
    GroupSpec,
    KeyedShard,
    RowGradients,
    TableSpec,
    load_table,
    restore,
    verify,
)
from heterps.tables.snapshots import pages
from heterps.tables.snapshots.footer import ColumnChunk, read_footer
from heterps.tables.snapshots.inspection import compare, describe
from heterps.tables.snapshots.manifest import _digest
from heterps.tables.snapshots.snapshot import save_shard

EXAMPLES = 2000 if os.environ.get("HETERPS_SOAK") == "1" else 100
GROUPS = (GroupSpec("ids", (TableSpec("wide", 1, SGD(0.1)), TableSpec("deep", 4, Adam(0.1))), n_shards=16),)
DENSE = (DenseSpec("w", (4, 3), Adam()), DenseSpec("b", (3,), SGD()))


def fresh() -> KeyedShard:
    return KeyedShard(GROUPS, DENSE)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shard = fresh()
    ids = np.arange(50, dtype=np.uint64)
    shard.push(BatchKey(0, 0, 0), {"ids": RowGradients(ids, np.ones((50, 5), np.float32))}, np.ones(15, np.float32))
    folder = save_shard(shard, tmp_path_factory.mktemp("saved"))
    return folder


# --- making it hostile, with hashes that fit


def rewritten(folder: Path, change: Any) -> None:
    """Change the manifest, and let its own hash fit."""
    path = folder / "manifest.json"
    body = json.loads(path.read_text())
    del body["sha256"]
    body = change(body) or body
    path.write_text(json.dumps(body | {"sha256": _digest(body)}))


def resealed(folder: Path, name: str, data: bytes) -> None:
    """Change a file, and let the manifest say so."""
    (folder / name).write_bytes(data)

    def change(body: dict[str, Any]) -> None:
        for file in body["files"]:
            if file["name"] == name:
                file["size"], file["sha256"] = len(data), hashlib.sha256(data).hexdigest()

    rewritten(folder, change)


def everything(folder: Path) -> None:
    """Every way in which a snapshot is read."""
    failures = []
    shard = fresh()
    for read in (
        lambda: restore(shard, folder),
        lambda: load_table(shard, folder, "deep"),
        lambda: describe(folder),
        lambda: compare(folder, folder),
        lambda: verify(folder),
    ):
        try:
            read()
        except CheckpointError as error:
            failures.append(str(error))
    if failures:
        raise CheckpointError("; ".join(failures))


def bounded(folder: Path) -> None:
    began = time.perf_counter()
    tracemalloc.start()
    try:
        everything(folder)
    except CheckpointError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.perf_counter() - began < 20
    assert peak < 64 << 20
    assert pa.default_memory_pool().bytes_allocated() < 64 << 20


# --- what was found


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/../../outside", "..", "", "x\0y", 7, None])
def test_names_that_lead_elsewhere_are_refused(saved: Path, tmp_path: Path, name: Any) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "00000001"))
    (tmp_path / "outside").write_text("secret")
    rewritten(folder, lambda body: body["files"][0].update(name=name))
    with pytest.raises(CheckpointError, match="lie in its own folder"):
        verify(folder)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "device"])
@pytest.mark.parametrize("victim", ["manifest.json", "rows-000-0000-0000.parquet"])
def test_what_is_no_regular_file_is_refused_without_waiting(
    saved: Path, tmp_path: Path, kind: str, victim: str
) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "00000001"))
    (folder / victim).rename(tmp_path / "moved")
    match kind:
        case "pipe":
            os.mkfifo(folder / victim)
        case "link":
            (folder / victim).symlink_to(tmp_path / "moved")
        case "folder":
            (folder / victim).mkdir()
        case "device":
            (folder / victim).symlink_to("/dev/zero")
    with pytest.raises(CheckpointError, match=f"cannot read .*{victim}"):
        everything(folder)


def test_a_size_that_is_not_the_files_allocates_nothing(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "00000001"))
    rewritten(folder, lambda body: body["files"][0].update(size=1 << 50))
    with pytest.raises(CheckpointError, match=r"bytes, 1125899906842624 were written"):
        verify(folder)


def test_a_number_of_rows_that_is_not_the_files_is_refused(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "00000001"))
    rewritten(folder, lambda body: body["files"][0].update(rows=49))
    with pytest.raises(CheckpointError, match=r"it has 50 rows, 49 were written"):
        restore(fresh(), folder)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("size", "count"), [(-7, 1), (-1, 0), (8, -1), (8, 3), (1 << 30, 1), (8, 1 << 40)])
def test_pages_stay_within_their_column(size: int, count: int) -> None:
    page = {1: count, 2: 0, 3: 3, 4: 3}
    header = thrift.encode({1: 0, 2: size, 3: size, 5: page})
    data = header + bytes(64)
    with pytest.raises(pa.ArrowInvalid, match="claims"):
        pages._pages(data, ColumnChunk("id", 1, 0, len(data), False), np.dtype(np.uint64))


@pytest.mark.parametrize(("begin", "size"), [(-8, 16), (0, 1 << 40), (40, -8)])
def test_columns_stay_within_the_file(begin: int, size: int) -> None:
    chunk = {3: {3: [b"id"], 4: 0, 5: thrift.I64(1), 7: thrift.I64(size), 9: thrift.I64(begin)}}
    group = {1: [chunk], 2: thrift.I64(8), 3: thrift.I64(1)}
    body = thrift.encode({1: 1, 2: [{4: b"id"}], 3: thrift.I64(1), 4: [group]})
    data = b"PAR1" + bytes(64) + body + len(body).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(pa.ArrowInvalid, match=r"is said to lie|claims"):
        read_footer(data)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_struct_or_an_error(data: bytes) -> None:
    try:
        _, end = thrift.decode(data)
    except (pa.ArrowInvalid, IndexError):
        return
    assert 0 < end <= len(data)


@pytest.mark.parametrize("data", [b"\x1c" * 5000, b"\x19\xfc\xff\xff\xff\xff\x0f", b"\x19\x19" * 3000, b"\xff" * 50])
def test_structs_that_never_end_do(data: bytes) -> None:
    with pytest.raises((pa.ArrowInvalid, IndexError)):
        thrift.decode(data)


def test_columns_of_another_width_are_not_stretched(saved: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = Path(shutil.copytree(saved, tmp_path / "00000001"))
    (path,) = folder.glob("rows-*")
    table = pq.read_table(path)
    narrow = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(50, np.float32)), 1)
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(table.column_names.index("deep"), "deep", narrow), sink, compression="none")
    resealed(folder, path.name, sink.getvalue().to_pybytes())
    for read in (lambda: restore(fresh(), folder), lambda: load_table(fresh(), folder, "deep")):
        with pytest.raises(CheckpointError, match="column 'deep' is float32"):
            read()


def test_compressed_files_are_refused(saved: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = Path(shutil.copytree(saved, tmp_path / "00000001"))
    (path,) = folder.glob("rows-*")
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(path), sink, compression="zstd")
    resealed(folder, path.name, sink.getvalue().to_pybytes())
    with pytest.raises(CheckpointError, match="it is compressed"):
        restore(fresh(), folder)


def test_a_few_bytes_do_not_become_many_rows(saved: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = Path(shutil.copytree(saved, tmp_path / "00000001"))
    (path,) = folder.glob("rows-*")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": np.zeros(1 << 20, np.uint64)}), sink, compression="none", use_dictionary=True)
    data = sink.getvalue().to_pybytes()
    assert len(data) < 1 << 16
    resealed(folder, path.name, data)
    with pytest.raises(CheckpointError, match=r"it claims 1048576 of something, in \d+ bytes"):
        restore(fresh(), folder)


# --- what was not

HOSTILE = [-1, 0, 1, 1 << 31, 1 << 63, 1 << 200, 1.5, 1e308, float("nan"), "", "x", "../x", None, True, [], {}, [[]]]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(leaf for key, item in items for leaf in leaves(item, (*path, key)))]


@st.composite
def manifests(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(leaves(body)[1:] or [("kind",)]))
        parent = body
        for key in path[:-1]:
            parent = parent[key]
        if isinstance(parent, dict) and draw(st.booleans()) and draw(st.booleans()):
            parent.pop(path[-1], None)
        else:
            parent[path[-1]] = copy.deepcopy(draw(st.sampled_from(HOSTILE)))
    return body


many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.timeout(3600)
@many
@given(st.data())
def test_any_manifest_is_read_or_refused(saved: Path, tmp_path: Path, data: st.DataObject) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "00000001", dirs_exist_ok=True))
    body = json.loads((saved / "manifest.json").read_text())
    del body["sha256"]
    changed = data.draw(manifests(body))
    rewritten(folder, lambda _: changed)
    bounded(folder)


@pytest.mark.timeout(3600)
@many
@given(st.data())
def test_any_file_is_read_or_refused(saved: Path, tmp_path: Path, data: st.DataObject) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "00000001", dirs_exist_ok=True))
    path = data.draw(st.sampled_from(sorted(folder.glob("*.parquet"))))
    content = bytearray(path.read_bytes())
    if data.draw(st.integers(0, 9)) == 0:
        del content[data.draw(st.integers(0, len(content))) :]
    for _ in range(data.draw(st.integers(1, 6))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        resealed(folder, path.name, bytes(content))
    else:
        path.write_bytes(content)
    bounded(folder)


@pytest.mark.timeout(3600)
@many
@given(st.binary(max_size=300))
def test_any_bytes_for_a_manifest_are_refused(saved: Path, tmp_path: Path, text: bytes) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "00000001", dirs_exist_ok=True))
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        everything(folder)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b"1" * 10_000, b'"\\ud800"', b"{}", b"null", b""])
def test_odd_json_is_refused(saved: Path, tmp_path: Path, text: bytes) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "00000001"))
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        everything(folder)
