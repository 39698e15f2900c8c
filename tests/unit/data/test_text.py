"""Delimited text: an oracle in plain Python, cuts, resume, shuffles, bad input."""

import csv as stdlib_csv
import gzip
import io
import math
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from heterps.data import (
    BadRows,
    Batch,
    Bucket,
    Categories,
    Category,
    Criteo,
    Cross,
    Dataset,
    Id,
    Match,
    Number,
    Schema,
    Split,
    adult,
    cross_ids,
    csv,
    dense,
    frame,
    hash_bytes,
    label,
    ragged,
    salt_of,
    sparse,
    tsv,
)
from heterps.data.core.files import cut
from heterps.data.text.lines import Lines
from heterps.data.text.open_quotes import OpenQuotes
from heterps.errors import DataError


def everything(data: Dataset, batch_size: int = 7, pass_: int = 0, seed: int = 0) -> list[Batch]:
    return [
        Batch(batch.key, batch.size, {name: _copy(column) for name, column in batch.columns.items()})
        for split in data.splits(pass_, seed)
        for batch in data.read(split, batch_size=batch_size, seed=seed)
    ]


def _copy(column):  # type: ignore[no-untyped-def]
    return (
        column.copy() if isinstance(column, np.ndarray) else type(column)(column.values.copy(), column.offsets.copy())
    )


def numbers(data: Dataset, **options: int) -> list[int]:
    """All values of the scalar column y, in reading order."""
    return [int(v) for batch in everything(data, **options) for v in batch["y"]]


def number_file(path: Path, count: int) -> Dataset:
    path.write_text("".join(f"{i}\n" for i in range(count)))
    return csv(str(path), Schema.of(label("y", Number("n"))), columns=["n"])


SCHEMA = Schema.of(
    sparse("ids", Category("a"), Id("b"), Bucket("c", (0.0, 1.0, 10.0)), Cross((Category("a"), Id("b")))),
    dense("x", Number("c"), Number("c", log=True, mean=1.0, std=2.0)),
    ragged("tags", Categories("d")),
    label("y", Match("e", "yes")),
)


def test_every_recipe_against_plain_python(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a,b,c,d,e\n"x, ""y""",5,-3.5,u|v||w,yes\nz,18446744073709551614,,,no\n')
    (batch,) = everything(csv(tmp_path / "a.csv", SCHEMA))
    first, second = batch["ids"].tolist()
    a = hash_bytes(b'x, "y"', salt_of("a"))
    assert first[:2] == [a, 5]
    assert first[3] == cross_ids(a, 5, salt=salt_of("a x b"))
    assert second[1] == 2**64 - 2
    assert len({first[2], second[2]}) == 2
    logged = (-math.log1p(3.5) - 1.0) / 2.0
    np.testing.assert_allclose(batch["x"], [[-3.5, logged], [0.0, 0.0]], rtol=1e-6)
    assert batch["tags"].tolist() == [[hash_bytes(t, salt_of("d")) for t in (b"u", b"v", b"w")], []]
    assert batch["y"].tolist() == [1.0, 0.0]


def test_criteo_row_by_hand(tmp_path: Path) -> None:
    line = "1\t" + "\t".join(["3", "-2", "", *["0"] * 10]) + "\t" + "\t".join(["68fd1e64", "", *["ff"] * 24]) + "\n"
    (tmp_path / "c.tsv").write_text(line)
    (batch,) = everything(Criteo(tmp_path / "c.tsv"))
    assert batch["ids"].shape == (1, 26)
    assert batch["x"].shape == (1, 13)
    assert batch["y"].tolist() == [1.0]
    assert batch["ids"][0, :2].tolist() == [hash_bytes(b"68fd1e64", salt_of("C1")), hash_bytes(b"", salt_of("C2"))]
    np.testing.assert_allclose(batch["x"][0, :4], [math.log(4), -math.log(3), 0, 0], rtol=1e-6)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=12)


@given(st.lists(st.tuples(texts, texts, texts), max_size=20), st.integers(1, 60), st.integers(1, 5))
def test_csv_writer_round_trip_under_any_cut(tmp_path_factory, table, grain, batch_size) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    stream = io.StringIO()
    stdlib_csv.writer(stream, lineterminator="\n").writerows(table)
    path.write_bytes(stream.getvalue().encode())
    data = csv(path, Schema.of(sparse("ids", *(Category(n) for n in "abc"))), columns="abc")
    expected = [[hash_bytes(text.encode(), salt_of(n)) for text, n in zip(row, "abc", strict=True)] for row in table]
    if not path.stat().st_size:
        return
    pieces = cut([str(path)], grain)
    got = [
        row
        for i, piece in enumerate(pieces)
        for batch in data.read(Split(0, i, (piece,)), batch_size=batch_size)
        for row in batch["ids"].tolist()
    ]
    assert got == expected


@given(st.binary(max_size=300), st.integers(1, 40), st.integers(12, 64))
@example(b"a\n" + b"b" * 10, 3, 12)  # the piece's last line goes on behind a full buffer that begins with a whole one
def test_lines_are_covered_once_by_any_cut(tmp_path_factory, content, grain, block) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("lines") / "t"
    path.write_bytes(content)
    got, long = [], []
    for piece in cut([str(path)], grain):
        lines = Lines(piece, block)
        while lines.refill():
            if lines.too_long >= 0:
                long.append(lines.too_long)
                lines.too_long = -1
            got += bytes(lines.buffer[lines.pos : lines.end]).split(b"\n")[:-1]
        lines.close()
    whole = content.split(b"\n")
    whole = whole[:-1] if content.endswith(b"\n") or not content else whole
    assert got == [line for line in whole if len(line) < block]
    assert len(long) == sum(len(line) >= block for line in whole)


@given(
    st.floats(-(2.0**127), 2.0**127, width=32).map(repr)
    | st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
)
def test_numbers_parse_to_the_nearest_float32(tmp_path_factory, text) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("n") / "n.csv"
    path.write_text(f"{text}\n")
    bad = BadRows()
    data = csv(path, Schema.of(dense("x", Number("n"))), columns=["n"])
    values = [float(v) for batch in data.read(data.splits()[0], batch_size=1, bad=bad) for v in batch["x"][0]]
    if abs(float(text)) > 3.4028234e38:
        assert bad.count == 1
    else:
        np.testing.assert_allclose(values, [np.float32(float(text))], rtol=2e-7)


@settings(max_examples=200)
@given(st.binary(max_size=400) | st.text('",\r\n1', max_size=80).map(str.encode), st.integers(1, 50))
def test_any_bytes_are_read_or_counted(tmp_path_factory, noise, grain) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("fuzz") / "f.csv"
    path.write_bytes(noise + b"\nok,7,1.5,t,yes\n")
    data = csv(path, SCHEMA, columns="abcde")
    bad = BadRows()
    seen = []
    for i, piece in enumerate(cut([str(path)], grain)):
        seen += [
            row for batch in data.read(Split(0, i, (piece,)), batch_size=3, bad=bad) for row in batch["ids"].tolist()
        ]
    assert seen[-1][:2] == [hash_bytes(b"ok", salt_of("a")), 7]
    assert len(seen) - 1 + bad.count == records(noise)


def records(content: bytes) -> int:
    """Lines that are neither blank nor go on with the record before them."""
    quotes, found = OpenQuotes(",", '"', 5), 0
    for line in content.split(b"\n"):
        if line not in (b"", b"\r") and not quotes.takes(line):
            quotes.begins(line)
            found += 1
    return found


BAD_LINES = {
    "wrong number of columns (2 instead of 3)": b"1,2",
    "not a finite number in column 'c'": b"x,1,inf",
    "not an id in column 'b'": b"x,-1,1",
    "id of 2**64 - 1 or more in column 'b'": b"x,18446744073709551615,1",
    "NUL byte": b"x\0,1,1",
    "invalid UTF-8": b"\xff\xfe,1,1",
    "unbalanced quote": b'"x"y,1,1',
    "quote open at the end of the line (a record must be one line)": b'"x,1,1',
    "line longer than 4096 bytes": b"x" * 5000 + b",1,1",
}


def bad_file(path: Path) -> Dataset:
    good = [b"g,%d,1" % i for i in range(5)]
    path.write_bytes(b"\n".join([b"a,b,c", *good, *BAD_LINES.values(), *good]) + b"\n")
    data = csv(path, Schema.of(sparse("ids", Category("a"), Id("b")), dense("x", Number("c"))))
    return type(data)(**{**vars(data), "block_bytes": 4096})


def test_bad_lines_are_skipped_counted_and_shown_with_file_and_line(tmp_path: Path) -> None:
    data, bad = bad_file(tmp_path / "bad.csv"), BadRows()
    ids = [row for batch in data.read(data.splits()[0], batch_size=4, bad=bad) for row in batch["ids"][:, 1].tolist()]
    assert ids == [*range(5), *range(5)]
    assert bad.count == len(BAD_LINES)
    assert [(row.line, row.reason) for row in bad.first] == list(enumerate(BAD_LINES, start=7))
    assert "bad.csv, line 7: wrong number of columns (2 instead of 3): '1,2'" in bad.message()


def test_a_limit_stops_the_read_with_examples(tmp_path: Path) -> None:
    data = bad_file(tmp_path / "bad.csv")
    with pytest.raises(DataError, match=r"3 bad rows .*\n.*line 7: wrong number"):
        everything(data.on_bad(limit=2))
    with pytest.raises(DataError, match="1 bad rows"):
        everything(data.on_bad("error"))


@pytest.mark.parametrize("scope", ["none", "local", "global"])
def test_a_read_from_any_batch_continues_the_whole_read(tmp_path: Path, scope: str) -> None:
    data = number_file(tmp_path / "n.csv", 1000).shuffle(scope, window=64)  # type: ignore[arg-type]
    data = type(data)(**{**vars(data), "split_cost": 1500})
    for split in data.splits(pass_=1, seed=3):
        whole = [(b.key, b["y"].tolist()) for b in data.read(split, batch_size=9, seed=3)]
        for start in (0, 1, 7, 8, len(whole), len(whole) + 3):
            again = Split.from_json(split.to_json())
            assert [(b.key, b["y"].tolist()) for b in data.read(again, batch_size=9, seed=3, start=start)] == whole[
                start:
            ]


@pytest.mark.parametrize("scope", ["local", "global"])
def test_shuffles_keep_every_row_once_and_depend_on_seed_and_pass(tmp_path: Path, scope: str) -> None:
    data = number_file(tmp_path / "n.csv", 2000).shuffle(scope, window=100)  # type: ignore[arg-type]
    data = type(data)(**{**vars(data), "split_cost": 2000})
    orders = [numbers(data, pass_=p, seed=s) for p, s in ((0, 0), (1, 0), (0, 1), (0, 0))]
    assert all(sorted(order) == list(range(2000)) for order in orders)
    assert orders[0] == orders[3]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_global_shuffle_mixes_rows_of_far_apart_places(tmp_path: Path) -> None:
    data = number_file(tmp_path / "n.csv", 5000).shuffle("global")
    data = type(data)(**{**vars(data), "split_cost": 4000})
    for split in data.splits(seed=1):
        rows = [int(v) for b in data.read(split, batch_size=64, seed=1) for v in b["y"]]
        assert max(rows) - min(rows) > 2500


def test_compressed_files_and_globs(tmp_path: Path) -> None:
    text = "".join(f"{i}\n" for i in range(100)).encode()
    (tmp_path / "a.csv").write_bytes(text)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(text[:150]) + gzip.compress(text[150:]))
    (tmp_path / "c.csv.zst").write_bytes(pa.Codec("zstd").compress(text, asbytes=True))
    data = csv(str(tmp_path / "*.csv*"), Schema.of(label("y", Number("n"))), columns=["n"])
    assert numbers(data) == list(range(100)) * 3
    whole = csv(tmp_path, Schema.of(label("y", Number("n"))), columns=["n"])
    assert numbers(whole) == list(range(100)) * 3
    url = csv(f"file://{tmp_path}/*.gz", Schema.of(label("y", Number("n"))), columns=["n"])
    assert numbers(url) == list(range(100))


def test_damaged_compression_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1\n" * 5000)[:-12])
    with pytest.raises(DataError, match=r"cannot read .*a\.csv\.gz"):
        numbers(csv(tmp_path / "a.csv.gz", Schema.of(label("y", Number("n"))), columns=["n"]))


def test_wrong_names_say_what_is_there_instead(tmp_path: Path) -> None:
    (tmp_path / "here.csv").write_text("a,b\n1,2\n")
    (tmp_path / "other.csv").write_text("a,c\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match=r"no such file: .*there\.csv .*holds empty\.csv, here\.csv"):
        csv(tmp_path / "there.csv")
    with pytest.raises(DataError, match=r"no source column 'c'; the input has a, b"):
        csv(tmp_path / "here.csv", Schema.of(label("y", Number("c"))))
    with pytest.raises(DataError, match=r"other\.csv lacks b: its header names a, c"):
        numbers(csv([tmp_path / "here.csv", tmp_path / "other.csv"], Schema.of(label("y", Number("b")))))
    with pytest.raises(DataError, match="is empty"):
        csv(tmp_path / "empty.csv")
    with pytest.raises(DataError, match="there are no rows"):
        csv(tmp_path / "empty.csv", Schema.of(label("y", Number("b"))), columns="ab").splits()
    with pytest.raises(DataError, match="no column 'z'; the dataset has y"):
        csv(tmp_path / "here.csv", Schema.of(label("y", Number("b")))).schema["z"]


def test_schema_is_inferred_from_the_head(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("name\tage\tclick\nann\t0.25\t1\nbob\t\t0\ncid\t-0.25\t0\n")
    data = tsv(tmp_path / "t.tsv")
    (batch,) = everything(data)
    assert data.schema.names == ("ids", "x", "y")
    assert batch["x"].tolist() == [[0.25], [0.0], [-0.25]]
    assert batch["y"].tolist() == [1.0, 0.0, 0.0]
    assert batch["ids"][0, 0] == hash_bytes(b"ann", salt_of("name"))


def test_datasets_and_schemas_are_plain_values(tmp_path: Path) -> None:
    data = number_file(tmp_path / "n.csv", 10)
    assert pickle.loads(pickle.dumps(data)) == data
    for schema in (SCHEMA, adult().schema):
        assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize("word", ["NA", "n/a", "NaN", "null", "None", "?", "\\N", ""])
def test_words_for_nothing_are_missing_numbers(tmp_path: Path, word: str) -> None:
    fields = Schema.of(
        dense("x", Number("a", missing=7.0)), sparse("b", Bucket("a", (1.0, 2.0))), label("y", Number("a", missing=5.0))
    )
    (tmp_path / "a.csv").write_text(f"a,y\n{word},1\n1.5,1\n")
    for data in (csv(tmp_path / "a.csv", fields), frame(pa.table({"a": [word, "1.5"]}), fields)):
        (batch,) = everything(data)
        assert batch["x"].tolist() == [[7.0], [1.5]]
        assert batch["y"].tolist() == [5.0, 1.5]
        assert batch["b"][0, 0] == Bucket("a", (1.0, 2.0)).absent
    required = csv(tmp_path / "a.csv", Schema.of(label("y", Number("a"))))
    bad = BadRows()
    assert [b.size for b in required.read(required.splits()[0], batch_size=9, bad=bad)] == [1]
    assert bad.first[0].reason.startswith("no label")


@pytest.mark.parametrize("word", ["NAN1", "n", "nul", "nine", "-", "Nope", "inf", "\\n"])
def test_other_words_are_bad_numbers(tmp_path: Path, word: str) -> None:
    (tmp_path / "a.csv").write_text(f"a\n{word}\n1.5\n")
    data, bad = csv(tmp_path / "a.csv", Schema.of(dense("x", Number("a")))), BadRows()
    assert [batch.size for batch in data.read(data.splits()[0], batch_size=9, bad=bad)] == [1]
    assert bad.first[0].reason.startswith("not a finite number")


def test_lists_longer_than_the_first_guess(tmp_path: Path) -> None:
    rows = [[f"t{i}" for i in range(n)] for n in (0, 50, 3, 200)]
    (tmp_path / "l.csv").write_text("".join('"' + "|".join(row) + '",""\n' for row in rows))
    data = csv(tmp_path / "l.csv", Schema.of(ragged("tags", Categories("a"), Categories("b"))), columns="ab")
    for shuffled in (data, data.shuffle()):
        (batch,) = everything(shuffled, batch_size=4)
        assert sorted(map(len, batch["tags"].tolist())) == [0, 3, 50, 200]
    (batch,) = everything(data, batch_size=4)
    assert batch["tags"].tolist() == [[hash_bytes(t.encode(), salt_of("a")) for t in row] for row in rows]


@pytest.mark.parametrize(("part", "rows", "positive"), [("train", 32561, 7841), ("test", 16281, 3846)])
def test_adult_is_whole(part: str, rows: int, positive: int) -> None:
    batches = everything(adult(part), batch_size=4096)  # type: ignore[arg-type]
    assert sum(batch.size for batch in batches) == rows
    assert sum(batch["y"].sum() for batch in batches) == positive
    assert np.isfinite(np.concatenate([batch["x"] for batch in batches])).all()
