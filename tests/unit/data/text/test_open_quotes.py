"""Newlines inside quotes: such a record is one bad row, and none of its lines is read as another."""

import csv as stdlib_csv
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from heterps.data import BadRows, Category, Number, Schema, Split, dense, label, sparse
from heterps.data.core.dataset import Dataset
from heterps.data.core.files import cut
from heterps.data.text.delimited_text import Text, csv

FIELDS = Schema.of(sparse("ids", Category("text")), dense("x", Number("n")), label("y", Number("y")))
HEAD = "text,n,y\n"


def found(data: Dataset, grain: int = 1 << 20) -> tuple[list[int], BadRows]:
    """The numbers of the rows that are read, piece by piece, and the account of the others."""
    bad, numbers = BadRows(), []
    assert isinstance(data, Text)
    for i, piece in enumerate(cut(list(data.paths), grain)):
        for batch in data.read(Split(0, i, (piece,)), batch_size=3, bad=bad):
            numbers += [int(n) for n in batch["x"][:, 0]]
    return numbers, bad


@pytest.mark.parametrize("grain", [5, 17, 40, 1000])
@pytest.mark.parametrize("text", ["a\nb", "a\n\nb", "a\n", "\n", 'say "a"\nb, c', "a\nb, c\nd,e,f,g", "\r\n,"])
def test_a_record_of_several_lines_is_one_bad_row(tmp_path: Path, text: str, grain: int) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        rows = stdlib_csv.writer(file, lineterminator="\n")
        rows.writerows([["text", "n", "y"], *([text if n % 3 == 1 else "plain", n, 1] for n in range(12))])
    numbers, bad = found(csv(path, FIELDS), grain)
    assert numbers == [n for n in range(12) if n % 3 != 1]
    assert bad.reasons == {"quote open at the end of the line (a record must be one line)": 4}
    assert bad.first[0].line == 3
    assert bad.first[0].text == path.read_bytes().decode().split("\n")[2]  # as it stands there


def test_a_stray_quote_costs_its_own_line_only(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEAD + 'a,0,1\n"5,1,1\nb,2,1\n"c",3,1\n"6,4,1\n12" pipe,5,1\n",",6,1\n')
    numbers, bad = found(csv(path, FIELDS))
    assert numbers == [0, 2, 3, 5, 6]
    assert [row.line for row in bad.first] == [3, 6]


@given(
    st.lists(st.text('"\n,a', max_size=6), min_size=1, max_size=8),
    st.integers(1, 60),
)
def test_what_a_line_belongs_to_does_not_depend_on_cuts(tmp_path_factory, cells, grain) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("cuts") / "a.csv"
    path.write_text(HEAD + "".join(f"{cell},{n},1\n" for n, cell in enumerate(cells)) + "end,99,1\n")
    whole, account = found(csv(path, FIELDS))
    parts, bad = found(csv(path, FIELDS), grain)
    assert (parts, bad.count, [*map(str, bad.first)]) == (whole, account.count, [*map(str, account.first)])
    assert whole[-1] == 99


def test_cells_beside_predictions_keep_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEAD + 'a,0,1\n"b\nc",1,1\nd,2,1\n')
    data = csv(path, FIELDS)
    cells = data.cells(data.splits()[0], ["text", "n"]).to_pylist()
    assert [row["text"] for row in cells] == ["a", None, "d"]
