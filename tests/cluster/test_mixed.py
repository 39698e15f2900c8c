"""Tables by Geo beside others on real processes: whoever is killed, every batch counts once in each way it travels."""

import json
from typing import Any

import pytest

from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.xdist_group("faults")]

TABLES = {"user": "geo:7", "*": "table"}
ALL = {"fc": "allreduce", "user": "geo:7", "*": "table"}

SCRIPT = """
import json, os, pathlib, signal, sys
from collections import Counter
import numpy as np
import pyarrow.parquet as pq
from distributed import Client
import heterps as hps
from heterps import ops
from heterps.runtime.cluster.identity import identity_of
from heterps.tables import CtrAccessor, Manifest

MODE, VICTIM, OPTIONS = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
IDS, ROWS, EPOCHS, HOSTS = 500, 16_000, 3, OPTIONS.pop("hosts", 1)

def rows(name):
    ids = ops.input(f"{name}s", shape=(2,), dtype="uint64")
    return ops.lookup(ids, table=name, dim=2, rule=hps.SGD(lr=0.1), accessor=CtrAccessor(embed=2))

def plan():
    hidden = ops.relu(ops.dense(ops.concat(rows("user"), rows("item")), 8, name="fc"))
    graph = hps.Graph(loss=ops.logloss(ops.dense(hidden, 1, name="out"), ops.input("y")))
    return hps.Plan.fused(graph, batch_size=32, workers=3, lanes=3, shard_hosts=HOSTS)

def data():
    rng = np.random.default_rng(5)
    columns = {name: rng.integers(0, IDS, (ROWS, 2)).astype(np.uint64) for name in ("users", "items")}
    y = (columns["users"][:, 0] % 2 == 1).astype(np.float32)
    return hps.arrays({**columns, "y": y}, split_cost=ROWS // 7)  # 72 batches: no multiple of 7

def shows(snapshot):
    found = Counter()
    for file in Manifest.read(snapshot).files:
        if file.name.startswith("rows-"):
            table = pq.read_table(snapshot / file.name)
            name = next(name for name in ("user", "item") if any(name in column for column in table.column_names))
            found[name] += int(table["show"].to_numpy().sum())
    return dict(found)

def kill(client):
    found = client.run(os.getpid)
    pids = {w["name"]: found[a] for a, w in identity_of(client)["workers"].items()}
    name = min(name for name in pids if name.startswith(VICTIM))
    os.kill(pids[name], signal.SIGKILL)
    pathlib.Path("killed").write_text(name)

client, kills, killed = Client(), OPTIONS.pop("kills", 1), 0
with hps.launch(plan(), client=client, mode=MODE, report_s=0.05, **OPTIONS) as session:
    for last in session.train(data(), epochs=EPOCHS):
        due = (killed + 1) * ROWS * EPOCHS // (kills + 2)
        if killed < kills and last.samples > due and not last.unprotected and not last.done:
            kill(client)
            killed += 1
    found = {"samples": last.samples, "shows": shows(session.save("end")), "mode": session.job.mode.name}
found |= {"killed": killed, "wanted": ROWS * EPOCHS}
pathlib.Path("result.json").write_text(json.dumps(found))
"""


def counted(launched: Launched, mode: str, victim: str, *pools: str, **options: Any) -> None:
    (launched.folder / "counting.py").write_text(SCRIPT)
    words = f"import runpy, sys; sys.argv = ['counting.py', {mode!r}, {victim!r}, {json.dumps(options)!r}]\n"
    code, out, err = launched.run(
        words + "runpy.run_path('counting.py', run_name='__main__')", *pools, "--compute", "0"
    )
    assert code == 0, f"{out}\n{err}"
    result = json.loads((launched.folder / "result.json").read_text())
    launched.wait_until_gone()
    wanted = result["wanted"]
    assert result["mode"] == {"async": "mixed", "sync": "mixed-sync"}[mode]
    assert result["killed"] == options.get("kills", 1)
    assert (result["samples"], result["shows"]) == (wanted, {"user": 2 * wanted, "item": 2 * wanted})


@pytest.mark.parametrize(("mode", "ways"), [("async", TABLES), ("sync", TABLES), ("sync", ALL)])
def test_an_io_worker_is_killed_in_the_middle_of_ranges(launched: Launched, mode: str, ways: dict[str, str]) -> None:
    counted(launched, mode, "io", "--servers", "2", "--io", "3", parameters=ways, hosts=2, kills=2)


@pytest.mark.parametrize(("mode", "ways"), [("async", TABLES), ("sync", ALL)])
def test_a_shard_host_is_killed_and_all_return_to_a_cut(launched: Launched, mode: str, ways: dict[str, str]) -> None:
    cuts = {"checkpoint": str(launched.folder / "cuts"), "every_s": 0.3}
    counted(launched, mode, "server", "--servers", "2", "--io", "3", parameters=ways, hosts=2, **cuts)


@pytest.mark.parametrize(("mode", "ways"), [("async", TABLES), ("sync", ALL)])
def test_a_backup_takes_over_and_copies_hear_of_its_rows_anew(
    launched: Launched, mode: str, ways: dict[str, str]
) -> None:
    counted(launched, mode, "server", "--servers", "3", "--io", "3", parameters=ways, hosts=2, replicas=2, kills=2)
