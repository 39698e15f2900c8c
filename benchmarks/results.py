"""What was measured so far, kept between invocations: a case that is measured again replaces its older figures."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import machine
from benchmarks.systems import CASES
from benchmarks.workload import DATA_FOLDER

RESULTS = DATA_FOLDER / "results.json"


def load() -> dict[str, Any]:
    """The results of earlier invocations on this machine, or none."""
    held = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept = isinstance(held.get("cases"), dict)
    return {
        "machine": machine.describe(),
        "cases": held["cases"] if kept else {},
        "quality": held["quality"] if kept else {},
    }


def keep(result: dict[str, Any]) -> None:
    """Write the results, cases in the order of the list."""
    order = [case.title for case in CASES]
    result["cases"] = dict(sorted(result["cases"].items(), key=lambda item: order.index(item[0])))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1))
