"""Files that grow, as a source."""

from pathlib import Path

import pytest

from heterps.errors import CheckpointError, DataError
from heterps.streaming import AppendedFiles, Nothing, Portion


def add(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def fetched(source: AppendedFiles, portion: Portion, folder: Path) -> list[str]:
    folder.mkdir()
    return [Path(path).read_text() for path in source.fetch(portion, folder)]


def portion_of(answer: Portion | Nothing) -> Portion:
    assert isinstance(answer, Portion)
    return answer


def test_a_portion_is_the_whole_lines_since_the_one_before(tmp_path: Path) -> None:
    source, log = AppendedFiles(tmp_path / "{day}.csv", header=True), tmp_path / "1.csv"
    add(log, "a,b\n")
    assert isinstance(source.poll(None), Nothing)
    add(log, "1,2\n3,4\n5")
    first = portion_of(source.poll(None))
    assert fetched(source, first, tmp_path / "first") == ["a,b\n1,2\n3,4\n"]
    assert isinstance(source.poll(first.position), Nothing)
    add(log, ",6\n")
    second = portion_of(source.poll(first.position))
    assert fetched(source, second, tmp_path / "second") == ["a,b\n5,6\n"]
    # The same rows again, whatever has come since.
    assert fetched(source, first, tmp_path / "again") == ["a,b\n1,2\n3,4\n"]


def test_a_portion_has_its_size_and_spans_no_two_days(tmp_path: Path) -> None:
    source = AppendedFiles(tmp_path / "{day}-{pass}.log", least_bytes=5, most_bytes=8)
    add(tmp_path / "1-a.log", "aaa\nbbb\nccc\n")
    add(tmp_path / "1-b.log", "dd\n")
    add(tmp_path / "2-a.log", "ee\n")
    rows, after = [], None
    while isinstance(answer := source.poll(after), Portion):
        rows.append((answer.day, fetched(source, answer, tmp_path / f"f{len(rows)}")))
        after = answer.position
    # The last day has too little for a portion yet.
    assert rows == [("1", ["aaa\nbbb\n"]), ("1", ["ccc\n", "dd\n"])]
    add(tmp_path / "2-a.log", "ff\n")
    assert portion_of(source.poll(after)).day == "2"


def test_a_file_that_got_shorter_is_named(tmp_path: Path) -> None:
    source, log = AppendedFiles(tmp_path / "{day}.log"), tmp_path / "1.log"
    add(log, "aaa\nbbb\n")
    position = portion_of(source.poll(None)).position
    log.write_text("a\n")
    with pytest.raises(DataError, match=r"1\.log has 2 bytes, of which 8 were read"):
        source.poll(position)


def test_a_line_without_end_and_the_position_of_another_source_are_named(tmp_path: Path) -> None:
    add(tmp_path / "1.log", "a" * 100)
    with pytest.raises(DataError, match="a line of more than 50 bytes"):
        AppendedFiles(tmp_path / "{day}.log", most_bytes=50).poll(None)
    with pytest.raises(CheckpointError, match="no position in files that grow"):
        AppendedFiles(tmp_path / "{day}.log").poll({"days": {}})
    with pytest.raises(DataError, match="cannot be made"):
        AppendedFiles(tmp_path / "{day}.log", least_bytes=9, most_bytes=8)
