"""JSON lines: what values become, what makes a line bad, and that types and blocks make no difference."""

import gzip
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import Phase, example, given, settings, strategies as st

from heterps.cli import main
from heterps.data import (
    BadRows,
    Categories,
    Category,
    Dataset,
    Id,
    Ids,
    JsonLines,
    Number,
    Salted,
    Schema,
    dense,
    frame,
    json_lines,
    label,
    open_dataset,
    ragged,
    sparse,
)
from heterps.data.columnar import json_blocks
from heterps.data.core.data_form import DataForm, fitted
from heterps.errors import DataError

FIELDS = Schema.of(
    sparse("ids", Category("s"), Category("n"), Salted("k"), Id("k", missing=0)),
    dense("x", Number("v"), Number("n")),
    ragged("tags", Categories("t"), Ids("u")),
    label("y", Number("y", missing=0.0)),
)


def write(folder: Path, rows: Sequence[dict[str, Any]], extra: str = "", name: str = "a.jsonl") -> Path:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows) + extra)
    return folder / name


def everything(data: Dataset, bad: BadRows | None = None) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in data.schema.names}
    for split in data.splits():
        for batch in data.read(split, batch_size=3, bad=bad):
            for name in found:
                found[name] += batch[name].tolist()
    return found


ROWS = [
    {"s": "a", "n": 3, "k": 7, "v": 0.5, "t": ["p", "q"], "u": [1, 2], "y": 1},
    {"s": "b", "n": -4, "k": 2**64 - 2, "v": 3, "t": [], "u": None, "y": 0},
    {"s": None, "k": 9, "v": 1e-3, "t": ["r"], "y": 1},
]


def test_lines_give_the_bits_of_a_frame(tmp_path: Path) -> None:
    columns = {name: [row.get(name) for row in ROWS] for name in ROWS[0]}
    table = pa.table({**columns, "k": pa.array(columns["k"], pa.uint64())})
    assert everything(json_lines(write(tmp_path, ROWS), FIELDS)) == everything(frame(table, FIELDS))


scalars = st.none() | st.integers(-(2**63), 2**64 - 2) | st.floats(width=32) | st.booleans() | st.text(max_size=4)
objects = st.fixed_dictionaries(
    {},
    optional={
        "s": scalars,
        "n": scalars | st.just("0.25"),
        "k": st.integers(0, 2**64 - 2) | st.sampled_from(["12", 12.0, None]),
        "v": st.integers(-9, 9) | st.floats(-9, 9, width=32) | st.sampled_from(["1.5", True]),
        "t": st.none() | st.lists(st.text("ab", max_size=2) | st.integers(0, 3), max_size=3),
        "u": st.none() | st.lists(st.integers(0, 9) | st.just("4"), max_size=3),
        "y": st.sampled_from([0, 1, 0.5, None, False, "1"]),
    },
)


KINDS = [("s", pa.string()), ("n", pa.float64()), ("k", pa.uint64()), ("v", pa.float64()), ("y", pa.float64())]
LISTS = [("t", pa.list_(pa.string())), ("u", pa.list_(pa.int64()))]
OTHERS = [("s", pa.int64()), ("n", pa.int64()), ("k", pa.string()), ("v", pa.bool_()), ("y", pa.int64())]


def told(path: Path, types: list[Any]) -> tuple[list[Any], int]:
    bad = BadRows()
    data = JsonLines(paths=(str(path),), fields=FIELDS, types=pa.schema([*types, *LISTS]))
    return list(zip(*everything(data, bad).values(), strict=True)), bad.count


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@example([{"n": 2**53 + 1}])
@example([{"n": 0.25}, {"n": 10**10}])
@example([{"v": "1.5", "n": -0.0}, {"v": -0.0, "s": -0.0}])
@given(st.lists(objects, min_size=1, max_size=5))
def test_a_row_is_the_same_whatever_its_neighbours_and_their_types_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    together = told(write(folder, rows), KINDS)
    alone = [told(write(folder, [row]), KINDS) for row in rows]
    assert repr(together[0]) == repr([found for rows, _ in alone for found in rows])
    assert together[1] == sum(count for _, count in alone)
    assert repr(told(write(folder, rows), OTHERS)) == repr(together)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{broken", "not JSON"),
        ("[1, 2]", "no JSON object"),
        ("12", "no JSON object"),
        ('{"n": 1}{"n": 2}', "not JSON"),
        ('{"s": "\\ud800"}', "invalid UTF-8 in column 's'"),
        ('{"s": [1]}', "a list instead of a value in column 's'"),
        ('{"s": {"a": 1}}', "an object instead of a value in column 's'"),
        ('{"t": "p"}', "a value instead of a list in column 't'"),
        ('{"t": [["p"]]}', "a list of more than values in column 't'"),
        ('{"k": -1}', "not an id in column 'k'"),
        ('{"v": "much"}', "not a finite number in column 'v'"),
        ('{"v": Infinity}', "not a finite number in column 'v'"),
        ('{"s": "' + 5000 * "x" + '"}', "line longer than 4096 bytes"),
    ],
    ids=lambda text: text[:20],
)
def test_a_bad_line_is_told_with_its_number_and_the_others_are_kept(tmp_path: Path, line: str, reason: str) -> None:
    path = write(tmp_path, ROWS, f"\n{line}\n" + json.dumps(ROWS[0]) + "\n")
    bad = BadRows(keeps=True)
    found = everything(json_lines(path, FIELDS, block_bytes=4096), bad)
    assert [(row.line, row.reason, row.before) for row in bad.rows] == [(5, reason, 3)]
    assert found["x"][-1] == found["x"][0]
    assert len(found["y"]) == 4


def test_an_object_on_several_lines_is_bad_on_each(tmp_path: Path) -> None:
    for text, count in (('{"s": "a",\n"n": 1}\n{"t": [{}\n,{}]}\n', 4), ('{"s": "a"}{"s": "b",\n"n": 1}\n', 2)):
        bad = BadRows(keeps=True)
        assert len(everything(json_lines(write(tmp_path, ROWS, text), FIELDS), bad)["y"]) == 3
        assert [row.line for row in bad.rows] == list(range(4, 4 + count))


def test_invalid_text_is_bad_also_in_members_that_nobody_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 1, "y": 0}\n{"n": 2, "y": 1, "z": "\xff"}\n')
    bad = BadRows()
    data = json_lines(path, Schema.of(dense("x", Number("n")), label("y", Number("y"))))
    assert everything(data, bad)["x"] == [[1.0]]
    assert bad.reasons == {"invalid UTF-8": 1}


def test_lines_may_end_as_on_windows_and_begin_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b'\xef\xbb\xbf{"n": 1, "y": 0}\r\n\r\n{"n": 2, "y": 1}\r\n')
    assert everything(open_dataset(path))["y"] == [0.0, 1.0]


def test_regular_blocks_are_parsed_by_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise AssertionError("parsed line by line")

    data = json_lines(write(tmp_path, [*ROWS, {"other": {"deep": [1]}}]), FIELDS)
    monkeypatch.setattr(json_blocks, "columns_of", refused)
    assert len(everything(data)["y"]) == 4


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.jsonl.gz", "a.jsonl.zst", "a.json", "a"])
def test_it_is_known_by_its_name_or_its_first_line(tmp_path: Path, name: str) -> None:
    text = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    if name.endswith(".zst"):
        with pa.CompressedOutputStream(str(tmp_path / name), "zstd") as file:
            file.write(text)
    else:
        (tmp_path / name).write_bytes(gzip.compress(text, mtime=0) if name.endswith(".gz") else text)
    assert everything(open_dataset(tmp_path / name, label="y"))["y"] == [1.0, 0.0, 1.0]


def test_what_is_no_line_each_is_told_how_to_become_one(tmp_path: Path) -> None:
    for text in ('[{"a": 1},\n{"a": 2}]\n', '{\n "a": 1\n}\n'):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(DataError, match=r"no JSON object on any line looked at.*jq -c"):
            open_dataset(tmp_path / "a.json")


def test_a_member_that_no_line_has_must_be_named(tmp_path: Path) -> None:
    fields = Schema.of(sparse("ids", Category("rare")), label("y", Number("y")))
    path = write(tmp_path, ROWS)
    with pytest.raises(DataError, match=r"no line looked at of .* has 'rare'; they have s, n, k"):
        json_lines(path, fields)
    assert len(everything(json_lines(path, fields, columns=["rare"]))["ids"]) == 3
    with pytest.raises(DataError, match="'deep' holds objects"):
        json_lines(write(tmp_path, [{"deep": {"a": 1}}]), Schema.of(sparse("ids", Category("deep"))))


def test_a_model_takes_members_that_later_lines_lack_for_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    form = DataForm.of(json_lines(write(tmp_path, ROWS), FIELDS))
    later = json_lines(write(tmp_path, [{"s": "a", "n": 3}], name="b.jsonl"), Schema(), guessed=True)
    with caplog.at_level(logging.WARNING, "heterps"):
        found = everything(fitted(later, form, ["ids", "x", "tags"]))
    assert found["x"] == [[0.0, 3.0]]
    assert found["ids"][0][:2] == everything(json_lines(tmp_path / "a.jsonl", FIELDS))["ids"][0][:2]
    assert "b.jsonl has no 'k' where it was looked at" in caplog.text
    other = json_lines(write(tmp_path, [{"other": 1}], name="c.jsonl"), Schema(), guessed=True)
    with pytest.raises(DataError, match=r"c\.jsonl has no column 's'"):
        fitted(other, form, ["ids"])


def test_cells_are_text_with_a_row_for_each_line(tmp_path: Path) -> None:
    data = json_lines(write(tmp_path, ROWS, "{broken\n"), FIELDS)
    cells = data.cells(data.splits()[0], ["s", "k", "t"])
    assert cells.to_pydict() == {
        "s": ["a", "b", None, None],
        "k": ["7", str(2**64 - 2), "9", None],
        "t": ['["p", "q"]', "[]", '["r"]', None],
    }


def test_the_command_shows_what_members_are_taken_for(tmp_path: Path) -> None:
    path = write(
        tmp_path, [{"city": "Ulm", "price": i / 3, "tags": ["a"], "geo": {"lat": 1}, "y": i % 2} for i in range(40)]
    )
    result = CliRunner().invoke(main, ["schema", str(path)])
    assert result.exit_code == 0, result.output
    assert "batches have ids (sparse 1), x (dense 1), y (label)" in result.output
    assert "it holds lists: declare it with ragged(...)" in result.output
    assert "it holds objects: put their members beside it" in result.output
