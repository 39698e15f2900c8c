"""Workers that join a run are used and those that are retired or sent SIGTERM give back what they have, on real
processes: all counts once, with the same bits, and nothing returns to a cut, as there is none.
"""

import json
import sys

import pytest

from tests.cluster.conftest import Launched

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("faults")]

COMMON = '''
import json, os, pathlib, signal, subprocess, sys, threading
from dataclasses import replace
import heterps as hps
from distributed import Client, LocalCluster
from heterps.runtime.cluster.commands import worker_command
from heterps.runtime.cluster.core_share import Threads
from heterps.runtime.cluster.identity import identity_of
from heterps.testing.engine_contract import plan, same, tables, trained
from heterps.testing.small_model import data
from tests.throttle import throttle

EPOCHS, GATE = 20, str(pathlib.Path("gate").absolute())

def staged(workers):
    fused = plan(lanes=2, shard_hosts=2, workers=workers)
    (stage,), pool, parts = fused.stages, fused.pools[0], hps.partition(fused.graph).parts
    made = (
        replace(stage, name=n, layers=(), ops=p.ops, pool=n, units=workers)
        for n, p in zip(("io", "compute"), parts, strict=True)
    )
    pools = tuple(replace(pool, name=name) for name in ("server", "io", "compute"))
    return replace(fused, stages=tuple(made), pools=pools, shard_pool="server")

def workers(client):
    return {w["name"]: a for a, w in identity_of(client)["workers"].items()}

def has(*words):
    return lambda moves: all(any(word in move for move in moves) for word in words)

def watched(session, steps, moves):
    """Train; take the next step whenever what the one before is to bring about was told, then open the gate."""
    reached, begun = has(), []
    for last in session.train(data(), epochs=EPOCHS):
        moves += last.moves
        if last.samples and reached(moves) and not pathlib.Path(GATE).exists():
            if steps:
                act, reached = steps.pop(0)
                begun.append(threading.Thread(target=act, daemon=True))
                begun[-1].start()
            else:
                pathlib.Path(GATE).touch()
    assert not steps and reached(moves), moves
    for thread in begun:
        thread.join(60)
    return last

def told(session, last, moves, mode, result):
    bits = tables(session)
    with hps.launch(plan(lanes=2), engine="inline", mode=mode) as inline:
        wanted = trained(inline, epochs=EPOCHS)
    result |= {"samples": last.samples, "same": same(bits, wanted), "moves": moves}
    pathlib.Path("result.json").write_text(json.dumps(result))
'''

COME_AND_GO = (
    COMMON
    + """
MODE, HOW = sys.argv[1:]
client, started = Client(), {}
client.run(throttle, GATE)

def start(name, pool, nanny):
    command = worker_command(
        pool, name, "127.0.0.1", Threads(1, 1), scheduler=client.scheduler.address, nanny=nanny, folder=os.getcwd()
    )
    words = [sys.executable, "-m", *command.words]
    with open(f"{name}.log", "w") as log:
        started[name] = subprocess.Popen(words, env={**os.environ, **command.environment}, stdout=log, stderr=log)

def come():
    start("late-server", "server", nanny=True)
    start("late-io", "io", nanny=True)

def go(*names):
    if HOW == "retire":
        retired.extend(client.retire_workers(names=list(names)))
        return
    nannies = {name: process.pid for name, process in started.items()}
    there = workers(client)
    for name in names:
        os.kill(nannies.get(name) or client.run(os.getpid, workers=[there[name]]).popitem()[1], signal.SIGTERM)

moves, retired = [], []
steps = [
    (lambda: go("server-1", "compute-1"), has("server-1 has left", "compute-1 has left", "is on server-0 now")),
    (come, has("late-server joins", "late-io joins", "is on late-server now")),
    (lambda: go("late-server", "late-io"), has("late-server has left", "late-io has left")),
]
with hps.launch(staged(1), client=client, mode=MODE, report_s=0.05) as session:
    last = watched(session, steps, moves)
    codes = {name: process.wait(30) for name, process in started.items()}
    told(session, last, moves, MODE, {"codes": codes, "workers": sorted(workers(client)), "retired": len(retired)})
"""
)

CLUSTER_OBJECT = (
    COMMON
    + """
if __name__ == "__main__":
    with LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.run(throttle, GATE)
        gone = lambda count: lambda moves: sum("has left" in move for move in moves) == count
        moves, steps = [], [
            (lambda: cluster.scale(3), gone(1)),
            (lambda: cluster.adapt(minimum=2, maximum=2, interval="100ms"), gone(2)),
        ]
        made = plan(lanes=2, shard_hosts=4, workers=2)
        with hps.launch(made, client=client, mode=sys.argv[1], report_s=0.05) as session:
            last = watched(session, steps, moves)
            told(session, last, moves, sys.argv[1], {"workers": len(workers(client))})
"""
)


def check(result: dict, mode: str) -> None:
    assert result["samples"] == 20 * 1500
    assert result["same"] or mode != "sync"


@pytest.mark.full
@pytest.mark.parametrize(("mode", "how"), [("sync", "term"), ("sync", "retire"), ("async", "retire")])
def test_workers_come_and_go(launched: Launched, mode: str, how: str) -> None:
    (launched.folder / "going.py").write_text(COME_AND_GO)
    script = f"import runpy, sys; sys.argv = ['', {mode!r}, {how!r}]; runpy.run_path('going.py', run_name='__main__')"
    code, out, err = launched.run(script, "--servers", "2", "--io", "1", "--compute", "2")
    assert code == 0, f"{out}\n{err}"
    result = json.loads((launched.folder / "result.json").read_text())
    check(result, mode)
    assert result["workers"] == ["compute-0", "io-0", "server-0"]
    assert set(result["codes"].values()) == {0}
    assert result["retired"] == (4 if how == "retire" else 0)
    assert "compute-1 was retired and has ended" in out + err, "one that left is not started again"
    launched.wait_until_gone()


@pytest.mark.full
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_cluster_object_scales_and_adapts(launched: Launched, mode: str) -> None:
    (launched.folder / "script.py").write_text(CLUSTER_OBJECT)
    process = launched.start_words(sys.executable, "script.py", mode)
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, f"{out}\n{err}"
    result = json.loads((launched.folder / "result.json").read_text())
    check(result, mode)
    assert result["workers"] == 2
    launched.wait_until_gone()
