"""Which batches are in the tables is written down once, small, and survives every way tables travel."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import heterps as hps
from heterps.protocol import BatchKey, Window
from heterps.protocol.words.modes import Async
from heterps.runtime.cuts.cut_store import host_state
from heterps.soak.counted_model import counted_data, counted_plan, shows
from heterps.tables import Manifest, find_generation

HOSTS, ROWS = 2, 1600


def launched(**options: object) -> hps.Session:
    return hps.launch(counted_plan(HOSTS, lanes=2), engine="inline", mode=Async(merge=4), **options)  # type: ignore[arg-type]


def manifest_of(folder: Path) -> Manifest:
    return Manifest.read(find_generation(folder / "checkpoint"))


def test_merged_pushes_leave_a_small_ledger_in_one_place(tmp_path: Path) -> None:
    with launched(checkpoint=tmp_path / "cuts") as session:
        list(session.train(counted_data(session, ROWS), epochs=5))
        session.save(tmp_path / "saved")
    for name in ("cuts", "saved"):
        manifest = manifest_of(tmp_path / name)
        assert len(json.dumps(manifest.window.to_json())) < 60
        assert "window" not in json.dumps(manifest.position)
        assert all(BatchKey(pass_, 0, 0) in manifest.window for pass_ in range(5))
        assert BatchKey(5, 0, 0) not in manifest.window


def test_a_run_that_goes_on_from_a_cut_of_merged_pushes_counts_every_batch_once(tmp_path: Path) -> None:
    with launched(checkpoint=tmp_path, every_batches=3, report_s=0.0) as session:
        train = counted_data(session, ROWS)
        for progress in session.train(train, epochs=3):
            if progress.samples > ROWS + ROWS // 2 and list(tmp_path.glob("checkpoint/0*")):
                break
    for _ in range(2):  # the second life resumes from the end of the first and has nothing left to do
        with launched(checkpoint=tmp_path, resume=tmp_path) as session:
            list(session.train(train, epochs=3))
            assert shows(session.save(tmp_path / "end"), HOSTS) == [3 * ROWS] * HOSTS


def test_saved_in_the_loop_then_loaded_trains_each_later_batch_once(tmp_path: Path) -> None:
    with launched(report_s=0.0) as session:
        train = counted_data(session, ROWS)
        for progress in session.train(train, epochs=3):
            if progress.samples > ROWS // 2:
                middle = shows(session.save(tmp_path / "middle"), HOSTS)
                break
        list(session.train(train))  # the next run takes over the tables
        assert shows(session.save(tmp_path / "next"), HOSTS)[0] >= middle[0] + ROWS
    assert 0 < middle[0] < 3 * ROWS
    with launched() as session:
        session.load(tmp_path / "middle")
        list(session.train(train))
        assert shows(session.save(tmp_path / "after"), HOSTS) == [middle[0] + ROWS] * HOSTS


@pytest.mark.parametrize("old", [True, False])
def test_a_cut_of_an_earlier_version_keeps_the_ledger_of_the_protocol(tmp_path: Path, old: bool) -> None:
    with launched(checkpoint=tmp_path) as session:
        list(session.train(counted_data(session, ROWS)))
    manifest = manifest_of(tmp_path)
    wanted = host_state(manifest)
    assert wanted["window"]
    if old:  # then the state had the ledger, and the manifest the keys of merged pushes only
        manifest = replace(manifest, window=Window(), position={**manifest.position, "state": wanted})
    assert host_state(manifest) == wanted
