"""A member of an all-reduce group on a stage worker: the stage of its process computes with its parameters.

Lanes are elsewhere, where the data is read. A lane computes on its home and nowhere else, so the stage leaves each
gradient here, under the batch's seed, and the lane's push only says which one it is: nothing dense crosses between the
worker that reads and those that compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.kernels.program.param_layout import ParamLayout
from heterps.protocol.words.group import FormGroup, MemberDecision, Position, Settle
from heterps.protocol.words.messages import Pull, Push, Request
from heterps.runtime.batch.payload import PushedGradients, StoredDense, Wanted
from heterps.runtime.batch.stage_params import StageParams
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import unpack_request
from heterps.runtime.wire.service import Method
from heterps.runtime.workers.group_member import Done, GroupMember, answered
from heterps.runtime.workers.waiter import Waiter

__all__ = ["StageMember"]

F32 = npt.NDArray[np.float32]
_GROUP = -1  # among marks of parameters by shard host
# What is not due by then is answered "wait" and asked again: so the caller's connection is free for what has become
# more urgent. Pushes bring nothing along, but all members hear of each try.
_PULL_S, _PUSH_S = 0.05, 0.5


class StageMember(GroupMember):
    """The member in one stage worker. Gradients that were left here are of one term, and until their step is taken."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._left: dict[int, F32] = {}  # by seed of the batch; under the lock, as all that a member has
        self._pushed: dict[Push, tuple[int, ...]] = {}  # seeds of what lanes pushed and is not taken yet

    # --- for the stage of this process

    def has_parameters_of(self, term: int) -> bool:
        """Say whether the parameters here are those with which batches that were granted under a term are computed."""
        with self._lock:
            return self.state.has_parameters_of(term)

    def fill(self, layout: ParamLayout, params: StageParams) -> None:
        """Bring the parameters of a layout that are all-reduced to their present state."""
        with self._lock:
            mark = f"{self.state.term}-{self.shard.version}"
            if params.marks.get(_GROUP) != mark:
                for here, there in self._spans(layout):
                    params.write(there, self.shard.dense.values[here])
                params.marks[_GROUP] = mark

    def keep(self, seed: int, layout: ParamLayout, gradient: F32, term: int) -> bool:
        """Take the gradient of a batch that the stage computed under a term; whether that is all of it."""
        spans = self._spans(layout)
        mine = np.empty(len(self.shard.dense), np.float32)
        for here, there in spans:
            mine[here] = gradient[there]
        with self._lock:
            if term == self.state.term:
                self._left[seed] = mine
        return len(spans) == len(list(layout))

    def _spans(self, layout: ParamLayout) -> list[tuple[slice, slice]]:
        """Where parameters of a stage lie among those of the group, and among its own."""
        where = self.shard.dense.where
        return [(where[piece.name], piece.span) for piece in layout if piece.name in where]

    # --- for lanes, of this process or others

    @property
    def methods(self) -> Mapping[str, Method]:
        """What other members may call, and lanes."""
        return {**super().methods, "request": self._on_request}

    def _on_request(self, message: Message) -> Message:
        request, payload = unpack_request(message)
        assert not isinstance(payload, StoredDense), "hosts take that"
        waiter = Waiter()
        self.request(request, payload, lambda reply, pulled: waiter(answered(reply), pulled))
        return waiter.wait(_PULL_S if isinstance(request, Pull) else _PUSH_S)

    def request(self, request: Request, payload: Wanted | PushedGradients | None, done: Done) -> None:
        """Take a request of a lane; with a push goes what the stage has left for it."""
        with self._lock:
            if isinstance(request, Push) and isinstance(payload, PushedGradients):
                payload = self._whole(request, payload)
            super().request(request, payload, done)

    def _whole(self, push: Push, pushed: PushedGradients) -> PushedGradients:
        """Return a push with its gradient; one whose step was taken meanwhile needs none."""
        self._pushed[push] = pushed.kept
        left = [self._left[seed] for seed in pushed.kept if seed in self._left]
        return replace(pushed, dense=left[0] if left else None)

    # --- what is forgotten, under the lock

    def _begin(self, form: FormGroup) -> None:
        super()._begin(form)
        self._forget_all()

    def _carry_out(self, decision: MemberDecision) -> None:
        if isinstance(decision, Settle):  # nothing is in flight: what is left is of batches that nobody pushes
            self._forget_all()
        super()._carry_out(decision)

    def _forget_all(self) -> None:
        self._left.clear()
        self._pushed.clear()

    def _forget(self, position: Position) -> None:
        super()._forget(position)
        for push in [push for push in self._pushed if (push.key.pass_, push.step) <= position]:
            for seed in self._pushed.pop(push):
                self._left.pop(seed, None)
