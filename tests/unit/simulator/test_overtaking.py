"""What the simulator's network does to the order of one attempt's requests to one host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from heterps.protocol import Async
from heterps.protocol.words.actions import Send
from heterps.protocol.words.messages import Pull, Push
from heterps.simulator import draw, simulate
from heterps.simulator.actors import Copy, Task

PUSHES = dict[tuple[int, int], list[int]]  # by attempt and copy: the batches of pushes that have not arrived


class Overtaken:
    """Counts pulls that arrive before a push that its attempt wanted sent to the same copy before them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._pushes: PUSHES = {}
        self._before: dict[tuple[int, int, int], set[int]] = {}  # by attempt, copy and batch of a pull
        wanted, receive = Task._send, Copy.receive

        def sent(task: Task, send: Send) -> None:
            if send.host < len(task.client.layout.copies):
                self._note(task.client.layout.copies[send.host], send.request)
            wanted(task, send)

        def received(copy: Copy, message: Any, *rest: Any) -> None:
            self._arrived(copy.number, message)
            receive(copy, message, *rest)

        monkeypatch.setattr(Task, "_send", sent)
        monkeypatch.setattr(Copy, "receive", received)

    def _note(self, copy: int, request: Any) -> None:
        pushes = self._pushes.setdefault((request.attempt, copy), [])
        if isinstance(request, Push):
            pushes.append(request.key.n)
        elif isinstance(request, Pull):
            self._before[request.attempt, copy, request.key.n] = set(pushes)

    def _arrived(self, copy: int, request: Any) -> None:
        if isinstance(request, Push):
            self._pushes[request.attempt, copy].remove(request.key.n)
        elif isinstance(request, Pull):
            before = self._before[request.attempt, copy, request.key.n]
            self.count += not before.isdisjoint(self._pushes[request.attempt, copy])


@pytest.mark.parametrize("mode", [Async(2), Async(3), Async(2, merge=2)], ids=str)
def test_pulls_overtake_pushes(monkeypatch: pytest.MonkeyPatch, mode: Async) -> None:
    """They do where pushes have a connection of their own: the promise must have been put to that."""
    drawn = draw(1)
    spec = replace(drawn.spec, mode=mode, compute=False, group=False, stage_hosts=0)
    quiet = replace(drawn, spec=spec, splits=(12, 12), faults=(), loss=0.0, duplication=0.0, lateness=0.0)
    overtaken = Overtaken(monkeypatch)
    assert not simulate(replace(quiet, push_delay=6.0)).problem
    assert overtaken.count > 3


def test_worlds_have_pushes_that_wait_where_engines_send_them_apart() -> None:
    drawn = [draw(seed) for seed in range(200)]
    assert {world.spec.mode.any_order for world in drawn if world.push_delay} == {True}
    assert {world.push_delay for world in drawn if world.spec.mode.any_order} == {0.0, 3.0, 6.0}
