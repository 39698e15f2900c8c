"""Where a run is whose driver died: told from its shard hosts, which are still there.

Hosts know what was applied, not how many batches a Split has. So what they know of is taken for begun and not for done:
whoever runs it next asks them, finds nothing left to do and says so. Nothing here is clean: the last batch of anything
may be on some hosts only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heterps.protocol.host.standing import HostStanding
from heterps.protocol.words.cut import Cut
from heterps.protocol.words.messages import FAR

__all__ = ["FoundRun", "found"]


@dataclass(frozen=True)
class FoundRun:
    """The pass that a run is in, and its progress as a book loads it."""

    pass_: int
    progress: Mapping[str, Any]


def found(cut: Cut, hosts: Sequence[HostStanding], *, ordered: bool) -> FoundRun | None:
    """Return where the run is; None if hosts cannot tell, or if some of them had returned to a cut and others not yet.

    Parameters
    ----------
    cut
        The last one that was published: what it says of the pass they are in still holds.
    hosts
        What all shard hosts say, none of which takes anything any more.
    ordered
        Whether it is a Sync run.
    """
    if len({host.line for host in hosts}) > 1:
        return None
    return _lanes(cut, hosts) if ordered else _splits(cut, hosts)


def _splits(cut: Cut, hosts: Sequence[HostStanding]) -> FoundRun:
    rows = [[row[:3] for row in host.window.to_json()] for host in hosts]
    floor = max(host.window.floor for host in hosts)
    pass_ = max(cut.pass_, floor[0], *(p for each in rows for p, _, _ in each), 0)
    at_cut = cut.progress if cut.pass_ == pass_ else {}
    low = max(at_cut.get("low", 0), floor[1] if floor[0] == pass_ else 0)
    done = {split for split in at_cut.get("done", ()) if split >= low}
    known = {s for each in rows for p, s, least in each if p == pass_ and least >= 0 and s >= low}
    fresh = max((split + 1 for split in (*known, *done)), default=low)
    starts = [[s, min(h.window.low(pass_, s) for h in hosts)] for s in range(low, fresh) if s not in done]
    return FoundRun(pass_, {"low": low, "done": sorted(done), "starts": starts, "fresh": fresh})


def _lanes(cut: Cut, hosts: Sequence[HostStanding]) -> FoundRun | None:
    """A lane says that it is at a step when all hosts have what is before: so the foremost word of any host counts."""
    told = list(zip(*(host.lanes for host in hosts), strict=True))  # by lane, what each host says
    foremost = [max(lane, key=lambda row: (row[0], row[1])) for lane in told]
    pass_ = max(cut.pass_, min(row[0] for row in foremost))
    if pass_ > cut.pass_ and not any(_has_begun(pass_, row) for row in foremost):
        pass_ -= 1  # there may be no other: what follows when all lanes have ended is for the run to say
    at_cut = cut.progress.get("lanes") if cut.pass_ == pass_ else None
    rows = []
    for lane, (row, said) in enumerate(zip(foremost, told, strict=True)):
        if row[0] > pass_:  # its data has ended; a host that has not heard of it is told again
            everywhere = all(each[0] > pass_ for each in said)
            rows.append([FAR, max(each[3] for each in said), 0, everywhere])
        else:
            found = _row(pass_, lane, row, at_cut)
            if row[0] == pass_ and found[1] + found[2] != row[1]:
                return None
            rows.append(found)
    return FoundRun(pass_, {"lanes": rows})


def _has_begun(pass_: int, row: Sequence[Any]) -> bool:
    return row[0] == pass_ and (row[1] > 0 or (row[2] is not None and row[2].split >= 0))


def _row(pass_: int, lane: int, row: Sequence[Any], at_cut: Sequence[Sequence[Any]] | None) -> list[Any]:
    """Return Split, step of its batch 0, first batch not done, whether ended: of a lane that stands at a step."""
    _, step, batch, _ = row
    if _has_begun(pass_, row) and batch is not None:
        return [batch.split, step - batch.n, batch.n, False]
    return list(at_cut[lane]) if at_cut else [lane, 0, 0, False]
