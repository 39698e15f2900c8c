"""Cuts that cannot be read any more, and cuts that a run builds on."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import heterps as hps
from heterps.errors import CheckpointError, RunError
from heterps.protocol.words.events import CopyLost
from heterps.runtime.cuts.checkpoints import Checkpoints, Keeper
from heterps.runtime.cuts.cut_store import CutStore
from heterps.tables import Manifest, Snapshots, verify
from heterps.testing.engine_contract import plan, same, tables, trained
from heterps.testing.small_model import data


def generations(path: Path) -> list[Path]:
    return Snapshots(path / "checkpoint").generations()


def follows(folder: Path) -> str | None:
    below = Manifest.read(folder).follows
    return None if below is None else below.name


def flip(folder: Path) -> None:
    """Flip a bit in the middle of a file with rows."""
    path = max(folder.glob("*.parquet"), key=lambda path: path.stat().st_size)
    found = bytearray(path.read_bytes())
    found[len(found) // 2] ^= 1
    path.write_bytes(found)


@pytest.fixture
def cut_twice(tmp_path: Path) -> tuple[Path, Path]:
    """A run that was resumed once, with a cut that holds everything and one that holds changes."""
    for epochs, resume in ((1, None), (2, tmp_path)):
        with hps.launch(plan(), engine="inline", checkpoint=tmp_path, resume=resume, mode="sync") as session:
            trained(session, epochs)
    base, changes = generations(tmp_path)
    assert [Manifest.read(folder).kind for folder in (base, changes)] == ["checkpoint", "changes"]
    return base, changes


def lose_a_host(session: hps.Session, *broken: Path) -> None:
    """Train ten more passes; after the first batches, break cuts and lose a host."""
    engine: Any = session.engine
    left = list(broken)
    for progress in session.train(data(), epochs=12):
        if left and progress.batches > 52:
            for folder in left:
                flip(folder)
            left.clear()
            hosts = engine._carrier.hosts
            hosts._arrivals.tell(CopyLost(max(hosts._copies)))
    assert not left


def resumed(path: Path) -> hps.Session:
    options: dict[str, Any] = {"checkpoint": path, "resume": path, "mode": "sync", "report_s": 0.0}
    return hps.launch(plan(shard_hosts=2), engine="dask", **options)


def test_a_host_is_lost_and_the_cut_to_return_to_is_broken(
    tmp_path: Path, cut_twice: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    base, changes = cut_twice
    with hps.launch(plan(), engine="inline", mode="sync") as session:
        wanted = trained(session, epochs=12)
    with caplog.at_level(logging.WARNING, "heterps"), resumed(tmp_path) as session:
        lose_a_host(session, changes)
        assert same(wanted, tables(session))
    assert caplog.text.count(f"{changes} cannot be used, the run goes back to {base}: ") == 1
    assert "is damaged: sha256" in caplog.text
    found = generations(tmp_path)
    assert changes not in found, "it does not count among those that are kept"
    assert follows(found[-1]) == base.name, "what comes next builds on what the run returned to"
    verify(found[-1])


def test_a_run_with_no_cut_that_can_be_read_says_so(tmp_path: Path, cut_twice: tuple[Path, Path]) -> None:
    with resumed(tmp_path) as session, pytest.raises(RunError, match=r"none before it.*is damaged: sha256"):
        lose_a_host(session, *cut_twice)


def test_a_later_run_of_a_session_does_not_return_to_cuts_of_the_one_before(tmp_path: Path) -> None:
    """Between them other data may have been trained."""
    with hps.launch(plan(), engine="inline", checkpoint=tmp_path) as session:
        trained(session)
        trained(session)
        engine: Any = session.engine
        keeper = Keeper(Checkpoints(str(tmp_path)), engine.job, engine.passes, 2, data(), engine.held)
    assert keeper.lost(keeper.base.number, CheckpointError("gone")).before is None


def test_a_resumed_run_passes_over_what_is_broken_and_does_not_keep_it(tmp_path: Path) -> None:
    with hps.launch(plan(), engine="inline", checkpoint=tmp_path, mode="sync") as session:
        list(session.train(data(), epochs=1))
        list(session.train(data(), epochs=1))
    before, broken = generations(tmp_path)
    assert Manifest.read(broken).kind == "changes"
    (broken / "manifest.json").write_bytes(b"{}")
    with hps.launch(plan(), engine="inline", checkpoint=tmp_path, resume=tmp_path, mode="sync") as session:
        list(session.train(data(), epochs=2))
    found = generations(tmp_path)
    assert broken not in found
    assert before in found, "two good states are kept"
    verify(found[-1])


@pytest.mark.parametrize("hosts", [1, 3])
def test_a_resumed_run_builds_on_the_cut_that_it_goes_on_from(tmp_path: Path, hosts: int) -> None:
    with hps.launch(plan(shard_hosts=2), engine="inline", checkpoint=tmp_path, mode="sync") as session:
        trained(session)
    (base,) = generations(tmp_path)
    options = {"checkpoint": tmp_path, "resume": tmp_path, "mode": "sync"}
    with hps.launch(plan(shard_hosts=hosts), engine="inline", **options) as session:
        wanted = trained(session, epochs=2)
    assert [follows(folder) for folder in generations(tmp_path)] == [None, base.name]
    assert not Manifest.read(generations(tmp_path)[1]).whole, "hosts knew what had changed"
    with hps.launch(plan(), engine="inline", mode="sync") as session:
        session.load(tmp_path)
        assert same(wanted, tables(session))


def test_the_next_run_of_a_session_builds_on_the_last_cut(tmp_path: Path) -> None:
    with hps.launch(plan(), engine="inline", checkpoint=tmp_path, mode="sync") as session:
        trained(session)
        wanted = trained(session)
    first, second = generations(tmp_path)
    assert follows(second) == first.name
    assert not Manifest.read(second).whole
    with hps.launch(plan(), engine="inline", mode="sync") as session:
        session.load(tmp_path)
        assert same(wanted, tables(session))


def test_a_cut_elsewhere_or_without_its_base_is_not_built_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with hps.launch(plan(), engine="inline", checkpoint=tmp_path / "a") as session:
        trained(session)
        trained(session, rows=64)
        there, here = (CutStore(tmp_path / name, session.job, 0, 1, {}) for name in "ba")
    base, newest = generations(tmp_path / "a")
    number = Manifest.read(newest).position["cut"]["number"]
    there.know(number, newest)
    assert there._follow() is None
    shutil.copytree(newest, newest.with_name("mine"))
    here.know(number, newest.with_name("mine"))
    assert here._follow() is None
    here.know(number, newest)
    assert here._follow() == newest
    (base / "manifest.json").unlink()
    here.go_on_from(0)
    here.go_on_from(number)
    assert here._follow() is None
    assert "the next cut holds everything" in caplog.text
