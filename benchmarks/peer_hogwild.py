"""PyTorch Hogwild: processes of one thread each change one table and one dense model in shared memory, lock-free."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import cycle
from multiprocessing.connection import Connection

import numpy as np
import torch
from torch import multiprocessing
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks import workload
from benchmarks.peer_torch import row_numbers
from benchmarks.serve import DENSE_LR, Settings, serve, settings
from benchmarks.torch_model import Net, first_rows


def share(chosen: Settings, number: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """One process's batches, over and over: a contiguous share of the samples, or every other file."""
    if chosen.source != "memory":
        from benchmarks.torch_files import Batches

        yield from Batches(chosen, number, chosen.threads)
    train, size = chosen.read_train(), chosen.batch
    part = train.rows(number * len(train) // chosen.threads, (number + 1) * len(train) // chosen.threads)
    held = torch.from_numpy(part.dense), row_numbers(part, chosen.ids), torch.from_numpy(part.label)
    for i in cycle(range(len(part) // size)):
        yield tuple(column[i * size : (i + 1) * size] for column in held)


class Lane:
    """One process's loop over its share of the batches."""

    def __init__(self, chosen: Settings, number: int, net: Net, table: torch.Tensor) -> None:
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        self.size, self.lr, self.net, self.table = chosen.batch, chosen.lr, net, table
        self.weights, self.batches = list(net.parameters()), share(chosen, number)

    def step(self) -> None:
        """Train the next batch of this lane's share."""
        x, rows, y = next(self.batches)
        looked_up = self.table.index_select(0, rows.view(-1)).requires_grad_()
        logit = self.net(x, looked_up.view(*rows.shape, -1))
        loss = binary_cross_entropy_with_logits(logit, y)
        *dense, sparse = torch.autograd.grad(loss, [*self.weights, looked_up])
        with torch.no_grad():
            torch._foreach_add_(self.weights, dense, alpha=-DENSE_LR)
            self.table.index_add_(0, rows.view(-1), sparse, alpha=-self.lr)

    def run(self, seconds: float, batches: int) -> tuple[int, float]:
        """Train for a time, or a number of batches if one is given."""
        began, done = time.perf_counter(), 0
        while done < batches if batches else time.perf_counter() - began < seconds:
            self.step()
            done += 1
        return done * self.size, time.perf_counter() - began


def work(chosen: Settings, number: int, net: Net, table: torch.Tensor, pipe: Connection) -> None:
    lane = Lane(chosen, number, net, table)
    pipe.send("ready")
    while order := pipe.recv():
        pipe.send(lane.run(*order))


class Hogwild:
    """The processes and what they share."""

    def __init__(self, chosen: Settings) -> None:
        if chosen.rule != "sgd":
            raise SystemExit("Hogwild is benchmarked with SGD only: AdaGrad's state would need locks")
        torch.manual_seed(chosen.seed)
        self.chosen = chosen
        self.net = Net(chosen.shape, chosen.model).share_memory()
        self.table = first_rows(torch.empty(chosen.shape.slots * chosen.ids, self.net.width), chosen.dim)
        self.table.share_memory_()
        spawn, self.pipes = multiprocessing.get_context("spawn"), []
        for number in range(chosen.threads):
            here, there = spawn.Pipe()
            args = (chosen, number, self.net, self.table, there)
            spawn.Process(target=work, args=args, daemon=True).start()
            self.pipes.append(here)
        for pipe in self.pipes:
            pipe.recv()

    def _all(self, seconds: float, batches: int) -> tuple[int, float]:
        for pipe in self.pipes:
            pipe.send((seconds, batches))
        told = [pipe.recv() for pipe in self.pipes]
        return sum(samples for samples, _ in told), max(took for _, took in told)

    def window(self, seconds: float) -> tuple[int, float]:
        """All processes train for about that long."""
        return self._all(seconds, 0)

    def learn(self, samples: int) -> tuple[int, float]:
        """Each process trains its share once."""
        return self._all(0.0, samples // self.chosen.threads // self.chosen.batch)

    @torch.no_grad()
    def score(self) -> float:
        """AUC on the held-out samples."""
        test = self.chosen.read_test()
        x, rows = torch.from_numpy(test.dense), row_numbers(test, self.chosen.ids)
        parts = zip(x.split(4096), rows.split(4096), strict=True)
        scores = [self.net(a, self.table[r]).numpy() for a, r in parts]
        return workload.auc(np.concatenate(scores), test.label)


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: Hogwild(chosen))
