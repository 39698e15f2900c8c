"""Cuts and saves that hold what changed: a session goes on from them as from full ones."""

import logging
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

import heterps as hps
from heterps.runtime.cuts.cut_store import CutStore
from heterps.soak.counted_model import counted_data, counted_plan
from heterps.tables import Manifest, Snapshots, find_generation, since_of
from heterps.testing.engine_contract import plan, same, tables, trained
from heterps.testing.small_model import data


def generations(folder: Path) -> list[Path]:
    return Snapshots(folder / "checkpoint").generations()


def kinds(folder: Path) -> list[str]:
    return [Manifest.read(path).kind for path in generations(folder)]


def inline(plan: hps.Plan, **options: Any) -> hps.Session:
    return hps.launch(plan, engine="inline", mode="sync", **options)


def stopped(path: Path, **options: Any) -> None:
    """A run that is lost once its newest cut is one of changes: its second, at whichever batch that is."""
    with inline(plan(shard_hosts=2), checkpoint=path, every_batches=4, report_s=0.0, **options) as session:
        for _ in session.train(data(), epochs=4):
            if kinds(path)[-1:] == ["changes"]:
                break


@pytest.fixture
def wanted() -> dict[str, np.ndarray]:
    with inline(plan()) as session:
        return trained(session, epochs=4)


@pytest.mark.parametrize("hosts", [1, 3])
def test_a_lost_run_goes_on_exactly_from_changes_on_any_number_of_hosts(
    tmp_path: Path, wanted: dict[str, np.ndarray], hosts: int
) -> None:
    stopped(tmp_path)
    assert kinds(tmp_path)[-1] == "changes"
    with inline(plan(shard_hosts=hosts), checkpoint=tmp_path, every_batches=9, resume=tmp_path) as session:
        assert same(wanted, trained(session, epochs=4))
    with inline(plan()) as session:
        session.load(tmp_path)
        assert same(wanted, tables(session))


def test_broken_changes_cost_a_run_no_more_than_the_way_back_to_the_cut_before(
    tmp_path: Path, wanted: dict[str, np.ndarray], caplog: pytest.LogCaptureFixture
) -> None:
    stopped(tmp_path)
    newest = generations(tmp_path)[-1]
    broken = next(path for path in newest.iterdir() if path.name.startswith("changes-"))
    broken.write_bytes(broken.read_bytes()[:-1])
    with (
        caplog.at_level(logging.WARNING, "heterps"),
        inline(plan(), checkpoint=tmp_path, resume=tmp_path) as session,
    ):
        assert same(wanted, trained(session, epochs=4))
    assert f"{newest} cannot be used, going back" in caplog.text
    assert broken.name in caplog.text


def test_every_so_many_cuts_one_holds_everything(tmp_path: Path) -> None:
    with dask.config.set({"heterps.cuts.full-every": 1}):
        stopped_all = tmp_path / "all"
        with inline(plan(), checkpoint=stopped_all, every_batches=4) as session:
            list(session.train(data(), epochs=2))
    assert set(kinds(stopped_all)) == {"checkpoint"}
    with (
        dask.config.set({"heterps.cuts.full-every": 3}),
        inline(plan(), checkpoint=tmp_path / "some", every_batches=4) as session,
    ):
        list(session.train(data(), epochs=4))
    found = "".join("F" if kind == "checkpoint" else "c" for kind in kinds(tmp_path / "some"))
    assert "F" in found
    assert "ccc" not in found


def test_changes_that_outweigh_their_base_make_room_for_a_full_cut(tmp_path: Path) -> None:
    """Every batch touches most rows here, so changes are soon larger than what they build on."""
    with inline(plan(), checkpoint=tmp_path, every_batches=2) as session:
        list(session.train(data(), epochs=4))
    sizes = [(Manifest.read(path).kind, Manifest.read(path).size) for path in generations(tmp_path)]
    base, total = 0, 0
    for kind, size in sizes:
        assert kind == "checkpoint" or total < base
        base, total = (size, 0) if kind == "checkpoint" else (base, total + size)


def test_a_session_saves_changes_and_loads_them_exactly(tmp_path: Path) -> None:
    with inline(counted_plan(2, lanes=2)) as session:
        train, states = counted_data(session, 300), []
        for n in range(4):
            list(session.train(train))
            folder = session.save(tmp_path / "model", kind="changes")
            assert Manifest.read(folder).kind == ("changes" if n else "checkpoint")
            states.append(session.predict(train))
        list(session.train(train))
        after = session.predict(train)
    with inline(counted_plan(2, lanes=2)) as session:
        session.load(tmp_path / "model")
        np.testing.assert_array_equal(session.predict(train), states[-1])
        list(session.train(train))
        np.testing.assert_array_equal(session.predict(train), after)
    assert find_generation(tmp_path / "model" / "checkpoint") == folder


def test_after_a_load_the_first_changes_are_everything(tmp_path: Path) -> None:
    with inline(plan()) as session:
        trained(session)
        first = session.save(tmp_path, kind="changes")
        saved = tables(session)
        trained(session)
        session.load(first)
        assert Manifest.read(session.save(tmp_path, kind="changes")).kind == "checkpoint"
        trained(session)
    with inline(plan()) as session:
        session.load(tmp_path)
        assert same(saved, tables(session))


def test_a_cut_that_was_damaged_meanwhile_is_not_built_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with inline(plan(), checkpoint=tmp_path, every_batches=4) as session:
        list(session.train(data()))
        store = CutStore(tmp_path, session.job, 0, 0, {})
    newest = generations(tmp_path)[-1]
    store._chain = [(newest, 1000)]
    assert since_of(store.folder(7)) == Manifest.read(newest).moment
    (newest / "manifest.json").write_text("{}")
    assert since_of(store.folder(8)) is None
    assert "the next cut holds everything" in caplog.text
