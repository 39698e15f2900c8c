"""The child's side of the protocol: every system under test is a process that trains when told to.

One command per line on stdin, one JSON object per line on the pipe whose number is in ``HETERPS_REPLIES`` (what
libraries print on stdout and stderr cannot get in between):

``go SECONDS``      train for about that long        -> ``{"samples": n, "seconds": s}``
``learn SAMPLES``   train on the first so many       -> ``{"samples": n, "seconds": s}``
``score``           AUC on the held-out samples      -> ``{"auc": a}``
``quit``            end

A process says ``{"ready": true}`` once built.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from benchmarks import workload


class Trains(Protocol):
    """What a system offers to the protocol."""

    def window(self, seconds: float) -> tuple[int, float]:
        """Train for about ``seconds``; return samples and the seconds they took."""

    def learn(self, samples: int) -> tuple[int, float]:
        """Train once on the first ``samples``; return samples and seconds."""

    def score(self) -> float:
        """AUC on the held-out samples."""


@dataclass(frozen=True)
class Settings:
    """One system's share of a run, as its command line gives it."""

    data: str
    train: int
    test: int
    model: str
    rule: str
    batch: int
    threads: int
    ids: int
    dim: int
    variant: str
    source: str
    file: str
    seed: int

    @property
    def shape(self) -> workload.Workload:
        """The workload these settings train on."""
        return replace(workload.shape_of(self.model), ids=self.ids, dim=self.dim)

    @property
    def lr(self) -> float:
        """Learning rate of the rows: SGD 0.01, AdaGrad 0.02. Dense parameters always take SGD 0.01."""
        return 0.01 if self.rule == "sgd" else 0.02

    def read_train(self) -> workload.Samples:
        """The training samples, in whole batches."""
        return workload.read(self.data, 0, self.train // self.batch * self.batch)

    def read_test(self) -> workload.Samples:
        """The held-out samples: those after the training ones."""
        return workload.read(self.data, self.train, self.train + self.test)


DENSE_LR = 0.01
ROW_RANGE = 0.01
_NUMBERS = {"train": 0, "test": 0, "batch": 1024, "threads": 2, "ids": 100_000, "dim": 0, "seed": 1}


def settings(argv: list[str] | None = None) -> Settings:
    """Parse a contender's command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", choices=workload.MODELS, default="wide_deep")
    parser.add_argument("--rule", choices=workload.RULES, default="sgd")
    parser.add_argument("--source", choices=workload.SOURCES, default="memory")
    parser.add_argument("--file", default="", help="folder of the training samples, where the source is files")
    parser.add_argument("--variant", default="")
    for name, default in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    found = vars(parser.parse_args(argv))
    found["dim"] = found["dim"] or workload.shape_of(found["model"]).dim
    return Settings(**found)


class Stepwise:
    """Windows, passes and scores for a system that trains one batch per call."""

    def __init__(
        self,
        batch: int,
        batches: int,
        step: Callable[[int], object],
        predict: Callable[[], np.ndarray],
        label: np.ndarray,
    ) -> None:
        self.batch, self.batches, self.step, self.predict, self.label = batch, batches, step, predict, label
        self.next = 0

    def window(self, seconds: float) -> tuple[int, float]:
        """Train batches in order, over and over, until the time is up."""
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            self.step(self.next)
            self.next = (self.next + 1) % self.batches
            done += 1
        return done * self.batch, time.perf_counter() - began

    def learn(self, samples: int) -> tuple[int, float]:
        """Train the first ``samples`` once, in order."""
        began, count = time.perf_counter(), samples // self.batch
        for i in range(count):
            self.step(i)
        return count * self.batch, time.perf_counter() - began

    def score(self) -> float:
        """AUC of the predictions on the held-out samples."""
        return workload.auc(self.predict(), self.label)


def serve(build: Callable[[], Trains]) -> None:
    """Build the system, then obey stdin until it ends."""
    replies = os.fdopen(int(os.environ.get("HETERPS_REPLIES", "1")), "w", buffering=1)
    system = build()
    print(json.dumps({"ready": True}), file=replies)
    for line in sys.stdin:
        command, _, number = line.strip().partition(" ")
        if command == "quit":
            break
        print(json.dumps(_obey(system, command, number)), file=replies)
    getattr(system, "close", lambda: None)()


def _obey(system: Trains, command: str, number: str) -> dict[str, float]:
    if command == "score":
        return {"auc": system.score()}
    samples, seconds = system.window(float(number)) if command == "go" else system.learn(int(number))
    # A system that starts and stops around its window says what the window itself used.
    own = getattr(system, "own", {}) if command == "go" else {}
    return {"samples": int(samples), "seconds": seconds, **own}
