"""An op that fails in a worker process: the run ends within seconds, with op, stage, worker and cause."""

import json

import pytest

from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]

SCRIPT = """
import importlib, json, pathlib, time
import heterps as hps
from distributed import Client
from tests import raising

client = Client()
client.run(importlib.import_module, "tests.raising")
told = {{}}
for stages in {stages}:
    for mode in ("sync", "async"):
        client.run(raising.start_counting)
        plan = raising.plan(raising.graph(9), stages, ("io", "server", "compute"))
        with hps.launch(plan, client=client, mode=mode, report_s=0.1) as session:
            for progress in session.train(raising.data(200)):  # makes actors, compiles loops
                if progress.batches:
                    break
            began = time.monotonic()
            try:
                list(session.train(raising.data(), epochs=50))
            except Exception as error:
                told[f"{{stages}} {{mode}}"] = [type(error).__name__, str(error), time.monotonic() - began]
pathlib.Path("told.json").write_text(json.dumps(told))
"""


@pytest.mark.full  # in one process in `make test`: tests/unit/session/test_op_errors.py
def test_the_error_names_op_cause_stage_and_worker(launched: Launched) -> None:
    places = {"1": "stage 0 on worker io-", "2": "stage 1 on worker compute-", "4": "stage 2 on worker compute-"}
    pools = ("--servers", "1", "--io", "2", "--compute", "1")
    code, out, err = launched.run(SCRIPT.format(stages="(1, 2, 4)"), *pools)
    assert code == 0, f"{out}\n{err}"
    told = json.loads((launched.folder / "told.json").read_text())
    assert set(told) == {f"{stages} {mode}" for stages in places for mode in ("sync", "async")}
    for case, (kind, message, seconds) in told.items():
        assert kind == "OpError", message
        assert "op 'bad' of kind 'tests.raising' failed in forward: ZeroDivisionError: the sky fell" in message
        assert f"; in {places[case[0]]}" in message
        assert seconds < 5, case
    launched.wait_until_gone()
