"""Rows that are looked at: from several places, none twice."""

from pathlib import Path

import pytest

from heterps.data.study.sampling import sample_lines


@pytest.mark.parametrize("rows", [0, 1, 9_000, 16_000, 23_000, 60_000])
def test_no_line_is_looked_at_twice(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("n,text\n" + "".join(f"{n},{'x' * 24}\n" for n in range(rows)))
    found = [line for line in sample_lines([str(path)], header=True) if line]
    assert len(found) == len(set(found)) <= rows
    if rows <= 16_000:  # half a megabyte: all of it
        assert len(found) == rows
