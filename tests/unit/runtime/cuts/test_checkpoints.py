"""What a run can return to before its own first cut."""

from pathlib import Path
from typing import Any

import pytest

import heterps as hps
from heterps.protocol.words.cut import Cut
from heterps.runtime.cuts.checkpoints import Checkpoints, Held, Keeper
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[Cut]:
    """Every cut that was written."""
    seen: list[Cut] = []
    good = Keeper.publish

    def publish(self: Keeper, cut: Cut, parts: Any) -> Any:
        seen.append(cut)
        return good(self, cut, parts)

    monkeypatch.setattr(Keeper, "publish", publish)
    return seen


def keeper_of(session: hps.Session, path: Path) -> Keeper:
    """The keeper that the session's next run would have."""
    engine: Any = session.engine
    return Keeper(Checkpoints(str(path)), engine.job, engine.passes, 1, data(), engine.held)


def test_a_second_run_begins_with_the_cut_that_ended_the_first(tmp_path: Path, cuts: list[Cut]) -> None:
    with hps.launch(plan(), engine="inline", checkpoint=tmp_path) as session:
        session.fit(data())
        (last,) = cuts
        base = keeper_of(session, tmp_path).base
        assert (base.number, base.pass_, dict(base.progress)) == (last.number, 1, {})
        session.fit(data())
        assert len(cuts) == 2
        assert cuts[1].number > last.number


def touch_by_shrink(session: hps.Session, path: Path) -> None:
    session.shrink()


def touch_by_loading(session: hps.Session, path: Path) -> None:
    session.save(path / "elsewhere")
    session.load(path / "elsewhere")


def touch_by_a_table(session: hps.Session, path: Path) -> None:
    session.save(path / "elsewhere")
    session.load_table(path / "elsewhere", "wide")


def leave_early(session: hps.Session, path: Path) -> None:
    next(iter(session.train(data(), epochs=100)))


@pytest.mark.parametrize("touch", [touch_by_shrink, touch_by_loading, touch_by_a_table, leave_early])
def test_tables_that_no_cut_has_are_cut_before_a_batch_is_trained(touch: Any, tmp_path: Path, cuts: list[Cut]) -> None:
    folder = tmp_path / "model"
    with hps.launch(plan(), engine="inline", mode="async", report_s=0.0, checkpoint=folder) as session:
        session.fit(data())
        touch(session, tmp_path)
        keeper = keeper_of(session, folder)
        assert keeper.base.number == 0
        assert not keeper.begins_fresh
        del cuts[:]
        session.fit(data())
        first, _ = cuts
        assert (first.progress["low"], first.progress["starts"]) == (0, [])


def test_a_change_in_the_middle_of_a_run_is_cut_at_once(tmp_path: Path, cuts: list[Cut]) -> None:
    with hps.launch(plan(), engine="inline", report_s=0.0, checkpoint=tmp_path) as session:
        shrunk = False
        for progress in session.train(data(), epochs=3):
            if not shrunk and progress.batches > 5:
                session.shrink()
                shrunk = True
    assert [cut.pass_ for cut in cuts] == [0, 2]


def test_a_folder_that_is_gone_is_no_base(tmp_path: Path) -> None:
    held = Held(False, 7, tmp_path / "00000001")
    assert held.checked().cut is None
    assert "00000001 was removed" in held.checked().why


def test_each_run_of_a_session_has_a_life_of_its_own(tmp_path: Path) -> None:
    with hps.launch(plan(), engine="inline", checkpoint=tmp_path) as session:
        session.fit(data())
    with hps.launch(plan(), engine="inline", checkpoint=tmp_path, resume=tmp_path) as session:
        session.fit(data(), epochs=2)
        resumed: Any = session.engine
        assert resumed.held.life == 1
        session.fit(data())
        assert resumed.held.life == 2
