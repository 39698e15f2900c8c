"""What a client wants done, and what its engine hands in: the vocabulary of ClientState."""

from __future__ import annotations

from typing import NamedTuple

from heterps.protocol.words.events import Event
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Request

__all__ = [
    "Action",
    "BatchRead",
    "Compute",
    "Computed",
    "Forget",
    "Free",
    "Read",
    "Send",
    "SplitEnded",
    "StepFailed",
    "Tell",
]


# --- what the client wants done


class Send(NamedTuple):
    """Send the request to a host (with the arrays it needs); hand in the answer with :meth:`ClientState.reply`."""

    host: int
    request: Request


class Read(NamedTuple):
    """Hand in BatchRead when this batch is there, or SplitEnded. Numbers rise by one after the first."""

    n: int


class Compute(NamedTuple):
    """All rows of the batch are there: compute it (on this stage worker; "" where compute is fused)."""

    key: BatchKey
    stage: str


class Forget(NamedTuple):
    """Keep the batch, but drop the rows pulled for it: it will be pulled again."""

    key: BatchKey


class Free(NamedTuple):
    """The unit is done: its buffers can be used again."""

    key: BatchKey
    batches: int


class Tell(NamedTuple):
    """Give the event to the run's RunState. BatchesDone may be merged or dropped, others not."""

    event: Event


Action = Send | Read | Compute | Forget | Free | Tell


# --- what the engine hands in besides replies and instructions


class BatchRead(NamedTuple):
    """Batch n is in memory."""

    n: int


class SplitEnded(NamedTuple):
    """The Split has this many batches."""

    batches: int


class Computed(NamedTuple):
    """Gradients of the batch are there."""

    key: BatchKey
    stage: str


class StepFailed(NamedTuple):
    """The stage worker did not answer; step is repeatable, another one will do it."""

    key: BatchKey
    stage: str
