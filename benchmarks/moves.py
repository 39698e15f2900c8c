"""Record a run over the seconds in which a server is lost, or leaves: what ``docs/moves.py`` draws.

python -m benchmarks.moves docs/promotion.json         # replicas=2, a server is killed
python -m benchmarks.moves docs/handover.json          # replicas=1, a server is retired
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from distributed import Client

import heterps as hps
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.cluster.launcher import Launch, launch_cluster
from heterps.runtime.run.dask_engine import ClusterEngine
from heterps.soak.counted_model import counted_data, counted_plan

BEFORE_S, AFTER_S = 2.0, 8.0
ROWS, EPOCHS, HOST = 20_000, 200, 1


def record(out: Path) -> None:
    """Train; after a while let it happen, and note what was applied and what moved when."""
    lost = out.stem == "promotion"
    client = Client(set_as_default=False)
    with hps.launch(counted_plan(2, 2), client, replicas=2 if lost else 1, report_s=0.01) as session:
        seen: list[tuple[float, int]] = []
        moves: list[tuple[float, str]] = []
        began, hit, victim = 0.0, 0.0, ""
        for progress in session.train(counted_data(session, ROWS), EPOCHS):
            now = time.monotonic()
            began = began or (now if progress.samples and not progress.unprotected else 0.0)
            seen.append((now, progress.samples))
            moves += [(now, words) for words in progress.moves] if hit else []
            if began and not hit and now - began > BEFORE_S:
                assert isinstance(session.engine, ClusterEngine)
                address = session.engine._places.answering[HOST]
                victim = str(identity_of(client)["workers"][address]["name"])
                hit = time.monotonic()
                _let_it_happen(client, lost, address)
            if hit and now - hit > AFTER_S:
                break
    told = {
        "what": f"{victim}, with shard host {HOST}, is {'killed' if lost else 'retired'}",
        "applied": [(round(t - hit, 3), n) for t, n in seen if t - hit > -BEFORE_S / 2],
        "moves": [(round(t - hit, 3), words) for t, words in moves],
        "load": [round(value, 1) for value in os.getloadavg()],
    }
    out.write_text(json.dumps(told) + "\n")


def _let_it_happen(client: Client, lost: bool, address: str) -> None:
    if not lost:
        threading.Thread(target=client.retire_workers, args=([address],), daemon=True).start()
        return
    os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)


def main() -> int:
    """Start a cluster around a recording."""
    if "DASK_SCHEDULER_ADDRESS" in os.environ:
        record(Path(sys.argv[1]))
        return 0
    with tempfile.TemporaryDirectory() as logs:
        words = ("-m", "benchmarks.moves", os.path.abspath(sys.argv[1]))
        return launch_cluster(Launch({"server": 3, "io": 2}, words, Path(logs)))


if __name__ == "__main__":
    sys.exit(main())
