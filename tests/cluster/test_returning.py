"""A worker that is stopped, given up and let go on, on real processes: it is used again, and all counts once."""

import json

import pytest

from tests.cluster.conftest import Launched
from tests.cluster.faults import SCRIPT
from tests.cluster.test_faults import check

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults"), pytest.mark.full]

BACK = '''
import logging
LOGGED, STAGES = [], ("begun", "stopped", "woken", "other stopped", "alone")

class Kept(logging.Handler):
    def emit(self, record):
        LOGGED.append(record.getMessage())

def told(text):
    return any(text in line for line in LOGGED)

def act(stage, pids, samples):
    """Stop one of two io workers until it is given up, wake it, and stop the other one for good once it is back."""
    if stage == "begun" and samples:
        os.kill(pids["io-1"], signal.SIGSTOP)
    elif stage == "stopped" and told("worker io-1 is lost to the run"):
        os.kill(pids["io-1"], signal.SIGCONT)
    elif stage == "woken" and told("worker io-1 answers again") and samples:
        os.kill(pids["io-0"], signal.SIGSTOP)
    elif stage != "other stopped" or not told("worker io-0 is lost to the run"):
        return stage
    return STAGES[STAGES.index(stage) + 1]

def trained(session, epochs, act=None):
    """Train epoch by epoch: so many, or until the other worker is given up, and one more."""
    samples = batches = n = 0
    while n < epochs:
        for last in session.train(data(), epochs=1):
            epochs = act(last.samples, n, epochs) if act else epochs
        samples, batches, n = samples + last.samples, batches + last.batches, n + 1
    return n, {"samples": samples, "batches": batches, "digest": digest(session)}

logging.getLogger("heterps").addHandler(Kept())
client = Client()
pids, stage, epoch = processes(client), "begun", 0

def go_on(samples, n, epochs):
    """One that is stopped and had nothing to do in an epoch is not missed: it is woken, and stopped in the next."""
    global stage, epoch
    if n > epoch and stage == "other stopped" and not told("worker io-0 is lost to the run"):
        os.kill(pids["io-0"], signal.SIGCONT)
        stage = "woken"
    epoch = n
    stage = act(stage, pids, samples)
    return epochs if stage != "alone" or epochs < 10**6 else n + 2

with hps.launch(plan(2, 1), client=client, mode=MODE, report_s=0.05) as session:
    epochs, result = trained(session, 10**6, go_on)
with hps.launch(plan(1, 1), engine="inline", mode=MODE) as session:
    _, result["expected"] = trained(session, epochs)
pathlib.Path("result.json").write_text(json.dumps(result))
'''


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_worker_that_was_given_up_is_used_again(launched: Launched, mode: str) -> None:
    """The other one is stopped then, so the rest is the work of the one that came back."""
    launched.environment |= {"DASK_HETERPS__TIMEOUTS__CALL": "15s", "DASK_HETERPS__STRAGGLERS__AFTER": "0s"}
    words = f"import sys; sys.argv = ['script.py', {mode!r}, 'none', '{{}}']\n"
    parts = SCRIPT.rsplit("main()", 1)
    options = ("--servers", "1", "--io", "2", "--compute", "0")
    code, out, err = launched.run(words + parts[0] + BACK, *options)
    assert code == 0, f"{out}\n{err}"
    check(json.loads((launched.folder / "result.json").read_text()), mode)
