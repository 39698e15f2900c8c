"""Passes that lie in folders: when they are complete."""

import os
import time
from pathlib import Path

import fsspec
import pytest

from heterps.errors import DataError
from heterps.streaming import FolderSource, Nothing, Portion


def put(path: Path, text: str = "rows\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def taken(source: FolderSource, after: object = None) -> list[tuple[str, str, tuple[str, ...]]]:
    """Take all that is there; files by their names."""
    found = []
    while isinstance(answer := source.poll(after), Portion):
        found.append((answer.day, answer.name, tuple(os.path.basename(path) for path in answer.files)))
        after = answer.position
    return found


def test_all_files_of_a_pass_are_one_and_hidden_or_empty_ones_are_none(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "_SUCCESS", ".part"):
        put(tmp_path / "1" / "00" / name)
    put(tmp_path / "1" / "00" / "c.csv", "")
    put(tmp_path / "1" / "01" / "_SUCCESS", "")
    wanted = [("1", "00", ("a.csv", "b.csv")), ("1", "01", ())]
    assert taken(FolderSource(tmp_path / "{day}" / "{pass}")) == wanted  # type: ignore[comparison-overlap]
    assert taken(FolderSource(f"{tmp_path}/{{day}}/{{pass}}/*")) == wanted


def test_a_done_file_beside_the_rows_or_anywhere(tmp_path: Path) -> None:
    put(tmp_path / "1" / "00" / "a.csv")
    beside = FolderSource(f"{tmp_path}/{{day}}/{{pass}}/*.csv", done="_DONE")
    elsewhere = FolderSource(f"{tmp_path}/{{day}}/{{pass}}/*.csv", done=f"{tmp_path}/{{day}}/{{pass}}.done")
    assert taken(beside) == taken(elsewhere) == []
    put(tmp_path / "1" / "00" / "_DONE")
    assert taken(beside) == [("1", "00", ("a.csv",))]
    put(tmp_path / "1" / "00.done")
    assert taken(elsewhere) == [("1", "00", ("a.csv",))]


def test_a_pass_is_complete_once_it_was_quiet(tmp_path: Path) -> None:
    path, clock = put(tmp_path / "1" / "00.csv"), [100.0]
    source = FolderSource(f"{tmp_path}/{{day}}/{{pass}}.csv", quiet_s=10_000.0, clock=lambda: clock[0])
    assert source.poll(None) == Nothing("pass 1 00 to stay as it is", expected=True)
    clock[0] += 9_999
    path.write_text("more rows\n")
    assert isinstance(source.poll(None), Nothing)
    clock[0] += 9_999
    assert isinstance(source.poll(None), Nothing)
    clock[0] += 2
    assert isinstance(source.poll(None), Portion)


def test_files_that_are_old_need_not_be_watched(tmp_path: Path) -> None:
    put(tmp_path / "1" / "00.csv")
    pattern = f"{tmp_path}/{{day}}/{{pass}}.csv"
    changed = os.stat(tmp_path / "1" / "00.csv").st_ctime
    while time.time() - changed < 0.02:
        time.sleep(0.005)
    assert isinstance(FolderSource(pattern, quiet_s=0.02).poll(None), Portion)


def test_a_pass_of_the_list_is_waited_for_and_given_up(tmp_path: Path) -> None:
    put(tmp_path / "1" / "01.csv")
    clock = [0.0]
    pattern, lists = f"{tmp_path}/{{day}}/{{pass}}.csv", {"days": ["1"], "passes": ["00", "01"]}
    source = FolderSource(pattern, **lists, give_up_s=60.0, clock=lambda: clock[0])
    assert source.poll(None) == Nothing("pass 1 00", expected=True)
    clock[0] = 59.0
    assert isinstance(source.poll(None), Nothing)
    clock[0] = 60.0
    answer = source.poll(None)
    assert isinstance(answer, Portion)
    assert answer.missing
    assert taken(source, answer.position) == [("1", "01", ("01.csv",))]


def test_passes_behind_a_url_are_found_and_copied(tmp_path: Path) -> None:
    for name in ("1/00.csv", "2/00.csv"):
        with fsspec.open(f"memory://streamed/{name}", "w") as file:
            file.write("rows\n")
    source = FolderSource("memory://streamed/{day}/{pass}.csv", copy=True)
    assert taken(source) == [("1", "00", ("00.csv",)), ("2", "00", ("00.csv",))]
    portion = source.poll(None)
    assert isinstance(portion, Portion)
    (path,) = source.fetch(portion, tmp_path)
    assert Path(path).read_text() == "rows\n"
    assert Path(path).parent == tmp_path


@pytest.mark.parametrize("lists", [{"days": []}, {"passes": ["1", "2", "1"]}])
def test_lists_that_make_no_sense_are_refused(lists: dict[str, list[str]]) -> None:
    with pytest.raises(DataError, match="the list of"):
        FolderSource("logs/{day}", **lists)
