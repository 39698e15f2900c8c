"""Plays faults on the workers of a launch: each training is counted, in Sync also held against one without faults."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

import psutil
from distributed import Client

import heterps as hps
from heterps.runtime.cluster.children import Children
from heterps.soak.counted_model import counted_plan
from heterps.soak.rounds import Pace, Round, each_once, rounds
from heterps.soak.victims import Victims

__all__ = ["play"]

USUAL = {"server": 2, "io": 2}
ROUNDS = 40  # in which everything has to have happened: a round has at least two passes, and none takes long


def play(deals: Sequence[tuple[str, int, Sequence[str]]], pace: Pace) -> None:
    """Play deals of mode, replicas and faults, and leave what came out in result.json."""
    random = Random(1)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        client = stack.enter_context(Client(set_as_default=False))
        children = stack.enter_context(Children(0, 5.0))  # who joins in one deal may be needed in the next
        launcher = psutil.Process().parent()
        victims = Victims(launcher, random, USUAL, client, children, None, Path("logs"), folder)
        told = [[*deal, _played(*deal, client, victims, random, pace)] for deal in deals]
    Path("result.json").write_text(json.dumps(told))


def _played(
    mode: str, replicas: int, faults: Sequence[str], client: Client, victims: Victims, random: Random, pace: Pace
) -> list[tuple[str, bool]]:
    left, plan = list(faults), counted_plan(2, 2)
    victims.fill()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        session = stack.enter_context(
            hps.launch(plan, client, mode=mode, replicas=replicas, checkpoint=folder, every_s=1.0, report_s=0.05)
        )
        twin = stack.enter_context(hps.launch(plan, engine="inline", mode=mode)) if mode == "sync" else None
        played: list[Round] = []
        for found in rounds(session, twin, victims, each_once(left), random, pace):
            print(mode, replicas, found, flush=True)
            played.append(found)
            if not left or len(played) == ROUNDS:
                break
            victims.fill(left)
    return [(fault, found.exact) for found in played for fault, _ in found.hits]
