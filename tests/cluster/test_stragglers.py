"""A worker that is far behind, on real processes: what it runs is run a second time, and all counts once."""

import json

import pytest

from tests.cluster.conftest import Launched
from tests.cluster.test_faults import check, run

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]


LONG = {"rows": 120_000, "epochs": 2}  # six Splits of 312 batches a pass


@pytest.mark.full
@pytest.mark.parametrize("mode", ["sync", "async", "geo:7"])
def test_what_a_slow_worker_runs_is_run_a_second_time(launched: Launched, mode: str) -> None:
    """It is stopped for most of the time until that has happened, for which there are passes enough.

    Splits take the other worker more than half a second: of shorter ones nobody hears how fast they went.
    """
    launched.environment["DASK_HETERPS__STRAGGLERS__AFTER"] = "1s"
    result = run(launched, mode, "none", "--servers", "1", "--io", "2", "--compute", "0", slow="io-1", **LONG)
    check(result, mode)
    assert result["twice"] >= 1


@pytest.mark.full
def test_cuts_do_not_wait_for_a_slow_worker(launched: Launched) -> None:
    launched.environment["DASK_HETERPS__STRAGGLERS__AFTER"] = "1s"
    options = {"checkpoint": str(launched.folder / "model"), "every_s": 0.3, "epochs": 4}
    result = run(
        launched, "sync", "none", "--servers", "2", "--io", "3", "--compute", "0", slow="io-1", hosts=2, **options
    )
    check(result, "sync")
    assert result["twice"] >= 1


MERGED = """
import importlib, json, pathlib, time
from dataclasses import replace
import heterps as hps
from distributed import Client
from tests import raising

def slow_down():
    raising._count = lambda call, way: time.sleep(0.04)  # forward and backward

client = Client()
client.run(importlib.import_module, "tests.raising")
client.run(slow_down)
plan = raising.plan(raising.graph(1 << 60), 2, ("io", "server", "compute"), lanes=2)
with hps.launch(plan, client=client, mode=hps.Async(depth=2, merge=8), report_s=0.1) as session:
    last = list(session.train(replace(raising.data(16_000), split_cost=8_000)))[-1]
    pathlib.Path("result.json").write_text(json.dumps([last.samples, last.run_twice]))
"""


@pytest.mark.full  # told by a clock of their own in `make test`: tests/unit/runtime/run/test_stragglers.py
def test_readers_that_merge_batches_for_a_slow_stage_are_not_behind(launched: Launched) -> None:
    """Each says a word for eight batches or sixteen, at different moments, and is silent for seconds in between."""
    launched.environment["DASK_HETERPS__STRAGGLERS__AFTER"] = "1s"
    code, out, err = launched.run(MERGED, "--servers", "1", "--io", "2", "--compute", "1")
    assert code == 0, f"{out}\n{err}"
    assert "far behind" not in err
    assert json.loads((launched.folder / "result.json").read_text()) == [16_000, 0]
    launched.wait_until_gone()
