"""A training script for fault tests: trains, has one of its workers killed at random, and says what came out."""

SCRIPT = '''
import hashlib, json, os, pathlib, random, signal, sys, threading, time
from dataclasses import replace
import numpy as np
import heterps as hps
from heterps import ops
from distributed import Client
from heterps.runtime.cluster.identity import identity_of

MODE, VICTIM, OPTIONS = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
SLOTS, IDS, ROWS = 4, 500, OPTIONS.get("rows", 24_000)

def graph():
    ids = ops.input("ids", (SLOTS,), "uint64")
    x, y = ops.input("x", (3,)), ops.input("y")
    h = ops.concat(ops.lookup(ids, "deep", 4), x)
    h = ops.relu(ops.dense(h, 16, name="fc"))
    wide = ops.sum(ops.lookup(ids, "wide", 1))
    return hps.Graph(loss=ops.logloss(ops.add(wide, ops.dense(h, 1, name="out")), y))

def data():
    rng = np.random.default_rng(5)
    ids = rng.integers(0, IDS, (ROWS, SLOTS)).astype(np.uint64) + np.arange(SLOTS, dtype=np.uint64) * np.uint64(IDS)
    x = rng.standard_normal((ROWS, 3)).astype(np.float32)
    y = (ids[:, 0] % 2 == 1).astype(np.float32)
    return replace(hps.arrays({"ids": ids, "x": x, "y": y}), split_cost=ROWS // 6)

def digest(session):
    ids = np.arange(SLOTS * IDS, dtype=np.uint64).reshape(SLOTS, IDS).T.copy()
    rows = hps.arrays({"ids": ids, "x": np.ones((IDS, 3), np.float32)})
    found = session.predict(rows, fetch=["prediction", "deep", "wide"])
    return hashlib.sha256(b"".join(np.ascontiguousarray(found[k]).tobytes() for k in sorted(found))).hexdigest()

def plan(workers, hosts, staged=False):
    fused = hps.Plan.fused(graph(), batch_size=64, workers=workers, lanes=3, shard_hosts=hosts)
    if not staged:
        return fused
    (stage,), pool = fused.stages, fused.pools[0]
    parts = hps.partition(fused.graph).parts
    pools = ("io", "compute")
    stages = (replace(stage, name=n, layers=(), ops=p.ops, pool=n, units=2) for n, p in zip(pools, parts, strict=True))
    described = tuple(replace(pool, name=name) for name in ("server", *pools))
    return replace(fused, stages=tuple(stages), pools=described, shard_pool="server")

def kill(pids):
    able = sorted((n, p) for n, p in pids.items() if n.startswith(VICTIM))
    name, pid = random.Random(OPTIONS.get("seed", 0)).choice(able) if "seed" in OPTIONS else able[0]
    os.kill(pid, signal.SIGSTOP if OPTIONS.get("freeze") else signal.SIGKILL)
    pathlib.Path("killed").write_text(name)

def pulse(pid, over):
    """Let a worker run for a twentieth of the time."""
    while not over.is_set():
        os.kill(pid, signal.SIGSTOP)
        over.wait(0.95)
        os.kill(pid, signal.SIGCONT)
        over.wait(0.05)

def processes(client):
    found = client.run(os.getpid)
    pids = {w["name"]: found[a] for a, w in identity_of(client)["workers"].items()}
    return {**pids, "scheduler": client.run_on_scheduler(os.getpid)}

def break_cuts(pids):
    """Flip a bit of the cut that was published last, or of all, once it holds changes; kill before there is another."""
    from heterps.runtime.cuts.checkpoints import Keeper
    from heterps.tables import Manifest, Snapshots
    publish = Keeper.publish

    def broken(self, cut, parts):
        told = publish(self, cut, parts)
        found = Snapshots(pathlib.Path(OPTIONS["checkpoint"]) / "checkpoint").generations()
        if pids and Manifest.read(found[-1]).kind == "changes":
            for folder in found if OPTIONS["break_cuts"] == "all" else found[-1:]:
                path = next(path for path in sorted(folder.glob("*.parquet")) if path.stat().st_size)
                data = bytearray(path.read_bytes())
                data[len(data) // 2] ^= 1
                path.write_bytes(data)
            kill(pids)
            pids.clear()
            pathlib.Path("broken").write_text(found[-1].name)
        return told

    Keeper.publish = broken

def train(session, client, epochs):
    """Kill once a third of all samples is applied; where there are backups, each time one is ready again."""
    kills = 0 if VICTIM == "none" else OPTIONS.get("kills", 1)
    killed, scale = 0, OPTIONS.get("scale")
    if OPTIONS.get("break_cuts"):
        break_cuts(processes(client))
        kills = 0
    over, slow = threading.Event(), OPTIONS.get("slow")
    for last in session.train(data(), epochs=epochs):
        if slow and last.samples > ROWS // 6:
            threading.Thread(target=pulse, args=(processes(client)[slow], over), daemon=True).start()
            slow = None
        if last.run_twice:
            over.set()
        due = (killed + 1) * ROWS * epochs // (kills + 2)
        if scale and last.samples > ROWS * epochs // 6:
            session.scale(**scale)
            scale = None
        if killed < kills and last.samples > due and not last.unprotected and not last.done:
            kill(processes(client))
            killed += 1
    assert killed == kills, f"only {killed} of {kills} were killed"
    return last

def wait_for(client, scale):
    """Wait until so many workers are left: those that go are retired some time after the run has let them go."""
    from heterps.runtime.run.scaling import workers_by_role
    until = time.monotonic() + 30
    while workers_by_role(client) != {**workers_by_role(client), **scale}:
        assert time.monotonic() < until, f"still {workers_by_role(client)}"
        time.sleep(0.1)

def main():
    client = Client()
    workers, hosts, epochs = OPTIONS.get("workers", 2), OPTIONS.get("hosts", 1), OPTIONS.get("epochs", 2)
    names = ("checkpoint", "every_s", "resume", "replicas", "parameters", "dense_on", "storage", "device")
    options = {name: OPTIONS[name] for name in names if name in OPTIONS}
    if MODE.startswith("geo"):
        options |= {"sparse": hps.SGD(lr=0.1), "dense": hps.SGD(lr=0.1)}
    if MODE.startswith("cache"):
        options["cache_rows"] = 500
    staged = OPTIONS.get("staged", False)
    before = OPTIONS.get("trained_before", 0)
    with hps.launch(plan(workers, hosts, staged), client=client, mode=MODE, report_s=0.05, **options) as session:
        if before:
            session.fit(data(), epochs=before)
        last = train(session, client, epochs)
        if "scale" in OPTIONS:
            wait_for(client, OPTIONS["scale"])
        result = {"samples": last.samples, "batches": last.batches, "digest": digest(session), "twice": last.run_twice}
        result["cache_devices"] = sorted({use.device for use in last.exchange.caches.values()})
    rules = {name: options[name] for name in ("sparse", "dense", "cache_rows") if name in options}
    same = {"engine": "inline", **rules}
    if OPTIONS.get("device"):  # has its own roundings: the same run once more, with nobody killed
        kept = ("dense_on", "storage", "device")
        same = {"client": client, **rules} | {name: options[name] for name in kept if name in options}
    undisturbed = plan(workers, hosts, staged) if OPTIONS.get("device") else plan(1, 1)
    with hps.launch(undisturbed, mode=MODE, **same) as session:
        if before:
            session.fit(data(), epochs=before)
        last = list(session.train(data(), epochs=epochs))[-1]
        result["expected"] = {"samples": last.samples, "batches": last.batches, "digest": digest(session)}
    pathlib.Path("result.json").write_text(json.dumps(result))

main()
'''
