"""The script that ``heterps launch`` runs to measure what the engine takes; writes two numbers into a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from heterps.runtime.cluster.connect import connected
from heterps.runtime.measure.engine_share import engine_taken
from heterps.runtime.measure.own_processes import busy_s


def main(path: str) -> None:
    """Measure in the cluster that was launched."""
    with connected() as client:
        Path(path).write_text(json.dumps(engine_taken(client, busy_s)))


if __name__ == "__main__":
    main(sys.argv[1])
