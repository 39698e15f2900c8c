"""What others may take of a stream: deltas and bases that a checkpoint vouches for, by a list that follows the ledger.

A delta is saved before the checkpoint whose ledger names it. Until that is on disk it is nobody's: after a crash it is
removed and made again. The list is written from the ledger, so it never names what the stream could take back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from heterps.streaming.ledger import BASE, DELTA, Ledger
from heterps.tables import Snapshots
from heterps.tables.snapshots.disk import remove_tree
from heterps.writing import write_whole

__all__ = ["PUBLISHED", "publish", "remove_orphans"]

PUBLISHED = "published.json"
_FORMAT = "heterps-published/1"


def publish(model: Path, ledger: Ledger) -> None:
    """Write the list of what can be used, oldest first, and remove deltas that no base is left for."""
    there = [each for each in ledger.outputs if (model / each.kind / each.folder).is_dir()]
    entries = [asdict(each) | {"folder": f"{each.kind}/{each.folder}"} for each in there]
    if entries or (model / PUBLISHED).exists():
        write_whole(model / PUBLISHED, json.dumps({"format": _FORMAT, "outputs": entries}, indent=1) + "\n")
    oldest = next((each.folder for each in ledger.outputs if each.kind == DELTA), None)
    if any(each.kind == BASE for each in ledger.outputs):
        _remove(path for path in _generations(model, DELTA) if oldest is None or path.name < oldest)


def remove_orphans(model: Path, ledger: Ledger) -> None:
    """Remove deltas and bases that were saved after the checkpoint that the ledger is of."""
    for kind in (DELTA, BASE):
        known = {each.folder for each in ledger.outputs if each.kind == kind}
        newest = max(known, default="")
        _remove(path for path in _generations(model, kind) if path.name > newest)


def _generations(model: Path, kind: str) -> list[Path]:
    return Snapshots(model / kind).generations()


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        remove_tree(path)
