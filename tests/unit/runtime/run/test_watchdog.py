"""A run that stands still ends with who waits for whom; one that is only slow does not."""

import threading
import time
from pathlib import Path
from typing import Any

import dask
import pytest

import heterps as hps
from heterps.data import Arrays
from heterps.errors import RunError
from heterps.runtime.workers import cut_writer
from heterps.runtime.workers.stage import StageService
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data
from tests.unit.runtime.run.test_dask_engine import staged

pytestmark = pytest.mark.xdist_group("dask")


@pytest.fixture
def stuck() -> Any:
    """An event that something waits for until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def ends(session: hps.Session) -> RunError:
    since = time.monotonic()
    with pytest.raises(RunError, match=r"no batch was applied for 2 s") as caught:
        list(session.train(data(), epochs=50))
    assert time.monotonic() - since < 40
    return caught.value


def test_a_reader_that_blocks(stuck: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    good = Arrays.read

    def read(self: Any, split: Any, **rest: Any) -> Any:
        for n, batch in enumerate(good(self, split, **rest)):
            if split.index == 2 and n == 1:
                stuck.wait(60)
            yield batch

    monkeypatch.setattr(Arrays, "read", read)
    with dask.config.set({"heterps.timeouts.progress": "2s"}), hps.launch(plan(), report_s=0.1) as session:
        error = ends(session)
        stuck.set()
    assert "at Split 2 of pass 0 on worker" in str(error)
    assert "stuck.wait(60)" in error.__notes__[0]


def test_a_stage_that_blocks(stuck: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    good = StageService.step

    def step(self: Any, *args: Any) -> Any:
        if self.steps > 10:
            stuck.wait(60)
        return good(self, *args)

    monkeypatch.setattr(StageService, "step", step)
    with dask.config.set({"heterps.timeouts.progress": "2s"}), hps.launch(staged(), report_s=0.1) as session:
        error = ends(session)
        stuck.set()
    assert "on worker" in str(error)
    assert "stuck.wait(60)" in error.__notes__[0]


@pytest.mark.parametrize("engine", ["inline", "dask"])
def test_a_slow_loop_body_and_a_long_cut_are_no_stall(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    good = cut_writer.write_part

    def slow(*args: Any, **rest: Any) -> Any:
        time.sleep(2.5)
        return good(*args, **rest)

    monkeypatch.setattr(cut_writer, "write_part", slow)
    with (
        dask.config.set({"heterps.timeouts.progress": "1s"}),
        hps.launch(plan(), engine=engine, report_s=0.0, checkpoint=tmp_path) as session,
    ):
        slept, samples = False, 0
        for progress in session.train(data(), epochs=2):
            samples = progress.samples
            if not slept:
                time.sleep(2)
                slept = True
    assert samples == 3000
    assert engine == "inline" or "to write cut" in caplog.text
