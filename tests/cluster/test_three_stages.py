"""Reading, pulling and computing in processes of their own give the bits of one thread."""

import json

import pytest

from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]

SCRIPT = """
import hashlib, importlib, json, pathlib
import heterps as hps
from distributed import Client
from tests import raising

def trained(plan, **options):
    with hps.launch(plan, mode="sync", **options) as session:
        last = list(session.train(raising.data(), epochs=2))[-1]
        return last.samples, hashlib.sha256(session.predict(raising.data()).tobytes()).hexdigest()

graph = raising.graph(1 << 60)
expected = trained(raising.plan(graph, 1, lanes=2), engine="inline")
client = Client()
client.run(importlib.import_module, "tests.raising")
found = {n: trained(raising.plan(graph, n, ("io", "server", "compute"), lanes=2), client=client) for n in (3, 4)}
pathlib.Path("result.json").write_text(json.dumps({"expected": expected, **found}))
"""


@pytest.mark.full  # in one process in `make test`: tests/unit/session/test_three_stages.py
def test_read_pull_compute(launched: Launched) -> None:
    code, out, err = launched.run(SCRIPT, "--servers", "1", "--io", "2", "--compute", "2")
    assert code == 0, f"{out}\n{err}"
    result = json.loads((launched.folder / "result.json").read_text())
    assert result["3"] == result["4"] == result["expected"]
    assert result["expected"][0] == 4000
    launched.wait_until_gone()
