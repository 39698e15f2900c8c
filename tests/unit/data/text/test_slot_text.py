"""Slot text in its three styles, and programs between file and parser."""

import gzip
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.data import (
    BadRows,
    Categories,
    Category,
    Id,
    Ids,
    Number,
    Schema,
    Split,
    csv,
    dense,
    hash_bytes,
    label,
    ragged,
    salt_of,
    slot_text,
    sparse,
)
from heterps.data.core.files import cut
from heterps.errors import DataError
from tests.shared_data import SHARED, needs

SCHEMA = Schema.of(
    label("y", Number("click")),
    dense("x", Number("d[0]"), Number("d[1]"), Number("d[2]", missing=-1.0)),
    sparse("ids", Id("1"), Id("2", missing=9), Category("name")),
    ragged("many", Ids("7")),
    ragged("words", Categories("w")),
)


def rows_of(data, **options):  # type: ignore[no-untyped-def]
    out: dict[str, list] = {name: [] for name in data.schema.names}
    for split in data.splits():
        for batch in data.read(split, batch_size=3, **options):
            for name, column in batch.columns.items():
                out[name] += column.tolist()
    return out


LINE = "click:1 d:0.5 d:2 7:70 1:11 name:ann 7:71 w:hi unknown:3 7:72"


@pytest.mark.parametrize("style", ["name:value", "value:name", "counted"])
def test_one_line_in_each_style(tmp_path: Path, style: str) -> None:
    tokens = [token.split(":") for token in LINE.split()]
    if style == "counted":
        text = "1 1 2 0.5 2 1 11 0 1 ann 3 70 71 72 1 hi"
    else:
        text = " ".join(":".join(token if style == "name:value" else token[::-1]) for token in tokens)
    (tmp_path / "s.txt").write_text(f"\n{text}\r\n  {text}  \n")
    got = rows_of(slot_text(tmp_path / "s.txt", SCHEMA, style=style))  # type: ignore[arg-type]
    assert got == {
        "y": [1.0] * 2,
        "x": [[0.5, 2.0, -1.0]] * 2,
        "ids": [[11, 9, hash_bytes(b"ann", salt_of("name"))]] * 2,
        "many": [[70, 71, 72]] * 2,
        "words": [[hash_bytes(b"hi", salt_of("w"))]] * 2,
    }


def test_bad_lines_name_the_slot(tmp_path: Path) -> None:
    lines = {
        "NUL byte": "click:1 w:a\0b",
        "token without a colon": "click:1 oops",
        "not a finite number in slot 'click'": "click:yes",
        "not an id in slot '7'": "click:1 7:-4",
        "id of 2**64 - 1 or more in slot '1'": "click:1 1:18446744073709551615",
        "more values than the schema has for slot in slot 'd'": "click:1 d:1 d:2 d:3 d:4",
    }
    (tmp_path / "s.txt").write_text("\n".join([*lines.values(), "click:1"]) + "\n")
    data, bad = slot_text(tmp_path / "s.txt", SCHEMA), BadRows()
    assert [batch["y"].tolist() for batch in data.read(data.splits()[0], batch_size=9, bad=bad)] == [[1.0]]
    assert [(row.line, row.reason) for row in bad.first] == list(enumerate(lines, start=1))


def test_counts_that_do_not_fit(tmp_path: Path) -> None:
    schema = Schema.of(label("y", Number("a")), ragged("b", Ids("b")))
    (tmp_path / "s.txt").write_text("1 5 2 8 9\n1 5 3 8 9\n1 5 1 8 9\nx\n1 6 0\n")
    data, bad = slot_text(tmp_path / "s.txt", schema, style="counted"), BadRows()
    (batch,) = data.read(data.splits()[0], batch_size=9, bad=bad)
    assert (batch["y"].tolist(), batch["b"].tolist()) == ([5.0, 6.0], [[8, 9], []])
    assert bad.reasons == {"counts that do not fit the line": 3}


def utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(max_examples=150)
@given(st.binary(max_size=200), st.integers(1, 40), st.sampled_from(["name:value", "value:name", "counted"]))
def test_any_bytes_are_read_or_counted(tmp_path_factory, noise, grain, style) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("fuzz") / "f"
    path.write_bytes(noise)
    data, bad, seen = slot_text(path, SCHEMA, style=style), BadRows(), 0
    for i, piece in enumerate(cut([str(path)], grain)):
        seen += sum(batch.size for batch in data.read(Split(0, i, (piece,)), batch_size=3, bad=bad))
    lines = [line for line in noise.split(b"\n") if line.strip(b" \t\r")]
    assert bad.reasons.get("invalid UTF-8", 0) == sum(not utf8(line) and b"\0" not in line for line in lines)
    assert seen + bad.count == len(lines)


def test_lists_outgrow_their_first_room(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("\n".join("click:1 " + " ".join(f"7:{i}" for i in range(n)) for n in (3, 90, 400)))
    assert rows_of(slot_text(tmp_path / "s.txt", SCHEMA))["many"] == [list(range(n)) for n in (3, 90, 400)]


@needs("criteo_paddlerec.tar.xz")
def test_the_vendor_samples(tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(SHARED / "criteo_paddlerec.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "criteo_paddlerec"
    deepfm = slot_text(folder / "deepfm_sample_train.txt")
    assert [(f.name, f.shape) for f in deepfm.schema] == [("ids", (26,)), ("x", (13,)), ("y", ())]
    assert rows_of(deepfm)["ids"][0][:2] == [737395, 210498]
    lr = Schema.of(
        sparse("ids", *(Id(f"feat_idx[{i}]") for i in range(39))),
        dense("x", *(Number(f"feat_value[{i}]") for i in range(39))),
        label("y", Number("label")),
    )
    first = rows_of(slot_text(folder / "lr_sample_train.txt", lr))
    assert first["ids"][0][13] == 695357
    few = Schema.of(label("y", Number("1")), ragged("s29", Ids("29")))
    demo = slot_text(folder / "slot_dnn_demo_10", few, style="value:name")
    assert rows_of(demo)["s29"][0][:2] == [16543128959394097760, 10003478084564939135]
    names = ["label", *(f"i{i}" for i in range(39)), *(f"v{i}" for i in range(39))]
    plain = Schema.of(label("y", Number("label")))
    autoint = csv(folder / "autoint_sample_train.txt", plain, columns=names, delimiter=" ", quote="")
    bad = BadRows()
    assert sum(b.size for b in autoint.read(autoint.splits()[0], batch_size=64, bad=bad)) > 0
    assert bad.count == 0


NUMBERS = Schema.of(label("y", Number("n")))


def test_rows_through_a_program(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress("".join(f"{i}\n" for i in range(50)).encode()))
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"100\n200\n"))
    data = csv(str(tmp_path / "*.gz"), NUMBERS, columns=["n"], pipe_command="gunzip | awk '{print $1 * 2}'")
    assert rows_of(data)["y"] == [2.0 * i for i in range(50)] + [200.0, 400.0]
    (split,) = data.splits()
    assert [b["y"].tolist() for b in data.read(split, batch_size=48, start=1)] == [[96.0, 98.0, 200.0, 400.0]]
    url = csv(f"file://{tmp_path}/a.gz", NUMBERS, columns=["n"], pipe_command="gunzip | head -3")
    assert rows_of(url)["y"] == [0.0, 1.0, 2.0]


def test_a_program_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    data = csv(tmp_path / "a", NUMBERS, columns=["n"], pipe_command="cat; echo no luck >&2; exit 3")
    with pytest.raises(DataError, match=r"(?s)the program 'cat; .* on .*ended with code 3:\nno luck"):
        rows_of(data)


def test_a_silent_program_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    data = csv(tmp_path / "a", NUMBERS, columns=["n"], pipe_command="sleep 60", pipe_timeout=0.2)
    with pytest.raises(DataError, match=r"gave no output for 0\.2 s and was stopped"):
        rows_of(data)


def test_leaving_a_read_early_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    alive = tmp_path / "alive"
    loop = f"while True: print(1, flush=True); pathlib.Path('{alive}').touch(); time.sleep(.01)"
    command = f'{sys.executable} -c "import time, pathlib\n{loop}"'
    data = csv(tmp_path / "a", NUMBERS, columns=["n"], pipe_command=command)
    batches = data.read(data.splits()[0], batch_size=2)
    assert next(batches).size == 2
    batches.close()  # type: ignore[attr-defined]
    alive.unlink(missing_ok=True)
    time.sleep(0.1)
    assert not alive.exists()


def test_bad_lines_of_a_program_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    data = csv(tmp_path / "a", NUMBERS, columns=["n"], pipe_command="seq 1 5; echo bad; seq 7 9", block_bytes=16)
    bad = BadRows()
    got = np.concatenate([b["y"].copy() for b in data.read(data.splits()[0], batch_size=2, bad=bad)])
    assert got.tolist() == [1, 2, 3, 4, 5, 7, 8, 9]
    assert [row.line for row in bad.first] == [6]
