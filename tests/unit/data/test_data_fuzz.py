"""Whatever a file holds, every reader gives rows or an error of ours that names the file."""

import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.data import (
    BadInput,
    Categories,
    Category,
    Dataset,
    Id,
    Ids,
    Number,
    Schema,
    Text,
    csv,
    dense,
    idx,
    image_folder,
    json_lines,
    label,
    open_dataset,
    parquet,
    ragged,
    slot_text,
    sparse,
    tsv,
)
from heterps.errors import DataError, HeterpsError

EXAMPLES = 2000 if os.environ.get("HETERPS_SOAK") == "1" else 100
FIELDS = Schema.of(
    sparse("ids", Category("a"), Id("b", missing=0)),
    dense("x", Number("c", log=True)),
    ragged("tags", Categories("d")),
    label("y", Number("y")),
)
CSV = 'a,b,c,d,y\n"u, v",1,0.5,p|q,1\nw,2,-1e3,,0\n\u00e9,3,,r,1\n'.encode()
JSON = '{"a": "u", "b": 1, "c": 0.5, "d": ["p", "q"], "y": 1}\n{"a": "\u00e9", "b": "2", "y": 0}\n'.encode()
SLOTS = b"click:1 a:3 b:0.5 7:1 7:2\nclick:0 a:4 b:0.25\n"
COUNTED = b"1 1 2 10 11\n1 0 0\n"
COUNTED_FIELDS = Schema.of(label("y", Number("y")), ragged("s", Ids("s")))


def _parquet_bytes() -> bytes:
    sink = pa.BufferOutputStream()
    columns = {"a": ["u", "v", None], "b": [1, 2, 3], "c": [0.5, None, 1.0], "d": ["p|q", "", None], "y": [1, 0, 1]}
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


def _zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(data)
    return bytes(sink.getvalue().to_pybytes())


def _idx_pair(path: Path) -> Dataset:
    labels = path.with_name("labels")
    labels.write_bytes(b"\0\0\x08\x01" + struct.pack(">I", 3) + bytes([0, 1, 2]))
    return idx(path, labels)


def _image(path: Path) -> Dataset:
    folder = path.parent / "images" / "one"
    folder.mkdir(parents=True, exist_ok=True)
    path.replace(folder / "a.png")
    return image_folder(folder.parent, size=(4, 4))


def _png() -> bytes:
    import io

    from PIL import Image

    sink = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(sink, "png")
    return sink.getvalue()


Reader = Callable[[Path], Dataset]
READERS: dict[str, tuple[str, bytes, Reader]] = {
    "csv": ("a.csv", CSV, lambda path: csv(path, FIELDS)),
    "csv, inferred": ("a.csv", CSV, csv),
    "csv without header": ("a.csv", CSV, lambda path: csv(path, FIELDS, columns=list("abcdy"))),
    "tsv": ("a.tsv", CSV.replace(b",", b"\t"), tsv),
    "gzip": ("a.csv.gz", gzip.compress(CSV, mtime=0), csv),
    "zstd": ("a.csv.zst", _zstd(CSV), csv),
    "criteo": ("a", b"1\t" + b"3\t" * 13 + b"\t".join([b"68fd1e64"] * 26) + b"\n", lambda p: open_dataset(p, "criteo")),
    "slots": ("a.txt", SLOTS, slot_text),
    "value:name": ("a.txt", b"1:y 3:s 4:s\n", lambda p: slot_text(p, COUNTED_FIELDS, style="value:name")),
    "counted": ("a.txt", COUNTED, lambda path: slot_text(path, COUNTED_FIELDS, style="counted")),
    "parquet": ("a.parquet", _parquet_bytes(), lambda path: parquet(path, FIELDS)),
    "parquet, inferred": ("a.parquet", _parquet_bytes(), parquet),
    "jsonl": ("a.jsonl", JSON, lambda path: json_lines(path, FIELDS, columns=list("abcdy"))),
    "jsonl, inferred": ("a.jsonl", JSON, json_lines),
    "guessed": ("a", SLOTS, open_dataset),
    "idx": ("a", b"\0\0\x08\x03" + struct.pack(">3I", 3, 2, 2) + bytes(12), _idx_pair),
    "images": ("a.png", _png(), _image),
}


def read_all(data: Dataset) -> int:
    return sum(batch.size for split in data.splits() for batch in data.read(split, batch_size=2))


def attempt(path: Path, reader: Reader) -> str:
    """Return what was said of the file; nothing if it was read."""
    try:
        data = reader(path)
        read_all(data)
        data.fingerprint()
    except HeterpsError as error:
        return str(error)
    return ""


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Bytes set, cut out, doubled, put in; or none of what was there."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["set", "cut", "end", "put", "double"])):
            case "set":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del data[at : at + draw(st.integers(1, 20))]
            case "end":
                del data[at:]
            case "put":
                data[at:at] = draw(
                    st.sampled_from([b"\0", b"\r", b"\n", b'"', b"\xff\xfe", b"9" * 400, b",", b"\t", b":"])
                )
            case "double":
                data[at:at] = data[:at]
    return bytes(data)


@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("name", READERS)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_any_file_gives_rows_or_an_error_of_ours(tmp_path: Path, name: str, data: st.DataObject) -> None:
    file, good, reader = READERS[name]
    (tmp_path / file).write_bytes(data.draw(damaged(good)))
    said = attempt(tmp_path / file, reader)
    assert not said or str(tmp_path) in said


@pytest.mark.parametrize("name", READERS)
def test_the_whole_files_are_read(tmp_path: Path, name: str) -> None:
    file, good, reader = READERS[name]
    (tmp_path / file).write_bytes(good)
    assert read_all(reader(tmp_path / file)) > 0


# --- what was found, and what is said of it


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16: convert it"),
        ("caf\u00e9,b\n1,2\n".encode("latin-1"), "byte 3 of the header is not UTF-8"),
        (b"a,b\r1,2\r3,4\r", "lines end with CR alone"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), r"compressed with gzip: call it \.gz"),
        (_zstd(b"a,b\n1,2\n"), r"compressed with zstd: call it \.zst"),
        (_parquet_bytes(), "a Parquet file: read it with parquet"),
        (b"\x7fELF\0\0\0\n", "no text file"),
        (b"a," * (1 << 20) + b"\n", "longer than 1048576 bytes"),
        (b"\n1,2\n", "it is empty"),
        (b"", "it is empty"),
    ],
)
def test_files_that_are_no_csv_are_named_with_what_to_do(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.csv, line 1: .*{said}"):
        csv(tmp_path / "a.csv")


def test_a_long_header_is_read_whole(tmp_path: Path) -> None:
    names = [f"column{i}" for i in range(20_000)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    assert csv(tmp_path / "a.csv", Schema.of(dense("x", Number(names[-1])))).columns == tuple(names)


@pytest.mark.parametrize(
    "url", ["nosuch://bucket/a.csv", "s4:///a.csv", "://", "http://[::1/a.csv", "memory://nothing.csv"]
)
@pytest.mark.parametrize("reader", [csv, parquet, slot_text, open_dataset])
def test_addresses_that_lead_nowhere_are_named(url: str, reader: Any) -> None:
    with pytest.raises(DataError, match=r"no such file|cannot (open|read)"):
        read_all(reader(url))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", [csv, parquet, slot_text, open_dataset, lambda p: open_dataset(p, "criteo")])
def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path, reader: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path / "no\0thing", tmp_path / ("x" * 300), "~nobody/x"):
        with pytest.raises(DataError):
            read_all(reader(path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
@pytest.mark.parametrize("reader", [csv, parquet, slot_text, open_dataset])
def test_unreadable_paths_are_named(tmp_path: Path, reader: Any) -> None:
    (tmp_path / "a.csv").write_bytes(CSV)
    (tmp_path / "a.csv").chmod(0)
    with pytest.raises(DataError, match=r"a\.csv: permission denied"):
        read_all(reader(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("delimiter", "quote"), [("", '"'), (",,", '"'), ("\n", '"'), (",", "ab"), (",", ","), ("\u00e9", "")]
)
def test_impossible_marks_are_named(tmp_path: Path, delimiter: str, quote: str) -> None:
    (tmp_path / "a.csv").write_bytes(CSV)
    with pytest.raises(DataError, match=r"delimiter|quote"):
        csv(tmp_path / "a.csv", delimiter=delimiter, quote=quote)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_cut_of_any_text_counts_every_line(tmp_path: Path, data: st.DataObject) -> None:
    """Good and bad rows together are the lines of the file, however it is cut."""
    lines = data.draw(st.lists(st.sampled_from(["1", "x", "2\0", "3,4", "5"]), min_size=1, max_size=30))
    (tmp_path / "a").write_text("\n".join(lines) + "\n")
    text = Text(
        paths=(str(tmp_path / "a"),),
        columns=("n",),
        fields=Schema.of(label("y", Number("n"))),
        split_cost=data.draw(st.integers(1, 80)),
        bad_input=BadInput("skip", 99),
    )
    good = read_all(text)
    assert good == sum(line in ("1", "5") for line in lines)
