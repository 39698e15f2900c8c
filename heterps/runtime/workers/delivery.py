"""How actors on workers reach the driver of their run, and what they share with it in one process."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from heterps.data import Dataset
from heterps.protocol.words import events as ev
from heterps.runtime.wire.peer import Peer, PeerLost, connect
from heterps.runtime.wire.service import Address

__all__ = [
    "Addresses",
    "LocalRun",
    "decode_event",
    "local_run",
    "member_key",
    "peer_at",
    "reducing_failed",
    "run_here",
    "teller",
    "topic",
]

# Of copies of shard hosts by number, of stage workers by name, of members of an all-reduce group by `member_key`.
Addresses = Mapping[int | str, Address]

_RUNS: dict[str, LocalRun] = {}


@dataclass(frozen=True, eq=False)
class LocalRun:
    """What actors in the driver's own process take by reference: data that was never copied, the driver's ear."""

    dataset: Dataset | None
    tell: Callable[[ev.Event], None]


def local_run(run: str, here: LocalRun | None) -> None:
    """Make a run known in this process, or forget it."""
    if here is None:
        _RUNS.pop(run, None)
    else:
        _RUNS[run] = here


def run_here(run: str) -> LocalRun | None:
    """Return the run if its driver lives in this process."""
    return _RUNS.get(run)


def member_key(worker: str) -> str:
    """Return what addresses call the member of an all-reduce group on a worker."""
    return f"member on {worker}"


def peer_at(addresses: Addresses, name: str | int, tls: ssl.SSLContext | None) -> Peer:
    """Return a new way to the member of an all-reduce group on a worker, or to a copy of a shard host."""
    address = addresses.get(member_key(name) if isinstance(name, str) else name)
    if address is None:
        raise PeerLost(f"nobody has said where {name} is")
    return connect(address, tls=tls)


def reducing_failed(tell: Callable[[ev.Event], None], place: str, error: Exception) -> None:
    """A mistake of ours in a member, as what a lost worker causes is dealt with: the run ends and names it."""
    reason = f"{type(error).__name__}: {error}"
    tell(ev.AbortAsked(f"all-reducing failed on {place}: {reason}"))


def topic(run: str) -> str:
    """Return the Dask topic on which actors tell the driver what happened."""
    return f"heterps-{run}"


def teller(run: str, worker: Any) -> Callable[[ev.Event], None]:
    """Return the way to the driver: its queue in the same process, else Dask's event stream."""
    if run in _RUNS:
        return _RUNS[run].tell
    return lambda event: worker.log_event(topic(run), {"kind": type(event).__name__, "fields": asdict(event)})


def decode_event(message: Mapping[str, Any]) -> ev.Event:
    """Rebuild an event from what a topic carried."""
    event = getattr(ev, message["kind"])(**message["fields"])
    assert isinstance(event, ev.Event)
    return event
