"""Results are whole or absent, and nothing but a regular file is ever replaced."""

import os
import socket
import stat
from pathlib import Path

import pytest

from heterps.errors import OutputError
from heterps.writing import check_folder, check_target, whole_file, write_whole

WRITERS = [check_target, lambda path: write_whole(path, "x")]


def _made(folder: Path, kind: str) -> Path:
    path = folder / "there"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case "device":
            path = Path("/dev/full")
        case "link to a device":
            path.symlink_to("/dev/full")
    return path


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device", "link to a device"])
@pytest.mark.parametrize("write", WRITERS, ids=["check", "write"])
def test_what_is_no_file_is_refused_and_stays(tmp_path, kind, write):
    path = _made(tmp_path, kind)
    before = os.lstat(path)
    with pytest.raises(OutputError, match=r"it is a (named pipe|folder|socket|device)"):
        write(path)
    assert os.lstat(path) == before
    assert [p.name for p in tmp_path.iterdir()] in ([], ["there"])


@pytest.mark.parametrize("write", WRITERS, ids=["check", "write"])
@pytest.mark.parametrize("path", ["no/such/folder/x.json", "file/x.json", "", "name/", "a\0b", "loop"])
def test_what_cannot_become_a_file_is_named(tmp_path, monkeypatch, path, write):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("loop").symlink_to("loop")
    with pytest.raises(OutputError, match="cannot write"):
        write(path)


def test_a_check_leaves_nothing_behind_and_changes_nothing(tmp_path):
    (tmp_path / "old").write_text("old")
    check_target(tmp_path / "old")
    check_target(tmp_path / "new")
    check_folder(tmp_path / "deep" / "folder")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("old", "old")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="no file can be made"):
        check_target(tmp_path / "x")
    with pytest.raises(OutputError, match="no file can be made"):
        check_folder(tmp_path / "x")


def test_a_folder_that_cannot_be_one_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", "/dev/null"):
        with pytest.raises(OutputError, match=r"name another folder|cannot write"):
            check_folder(path)


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "x"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(f"half {1 // 0}")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("x", "before")]


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "x"
    write_whole(path, "before")
    with whole_file(path, "wb") as file:
        file.write(b"after")
        file.flush()
        assert path.read_text() == "before"
    assert path.read_text() == "after"


def test_permissions_and_links_stay(tmp_path):
    real = tmp_path / "real"
    real.write_text("before")
    real.chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert real.read_text() == "after"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_new_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "x", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_a_full_disk_is_told_with_the_path(tmp_path):
    with pytest.raises(OutputError, match=r"cannot write .*x: No space"), whole_file(tmp_path / "x", "wb"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), FileNotFoundError(2, "no such file", "input")])
def test_what_the_block_meets_elsewhere_keeps_its_name(tmp_path, error):
    with pytest.raises(type(error)), whole_file(tmp_path / "x"):
        raise error
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_read_is_not_replaced(tmp_path):
    (tmp_path / "a.csv").write_text("rows")
    (tmp_path / "link.csv").symlink_to("a.csv")
    for name in ("a.csv", "link.csv"):
        with pytest.raises(OutputError, match="it is one of the files that are read, and would be lost"):
            check_target(tmp_path / name, [str(tmp_path / "a.csv")])
    check_target(tmp_path / "b.csv", [str(tmp_path / "a.csv")])


@pytest.mark.parametrize("name", ["p.parquet", "P.CSV", "p", "of.2026/p.csv"])
def test_a_name_may_end_as_the_file_does_or_not_at_all(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    assert check_target(path, endings=(".parquet", ".csv")) == path


@pytest.mark.parametrize("name", ["p.xlsx", "p.csv.gz", "p.parquet.tmp"])
def test_a_name_that_says_something_else_is_refused(tmp_path, name):
    ends = f"files end in .parquet or .csv, not in {Path(name).suffix}"
    with pytest.raises(OutputError, match=ends):
        check_target(tmp_path / name, endings=(".parquet", ".csv"))
