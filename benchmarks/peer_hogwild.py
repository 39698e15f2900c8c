"""PyTorch Hogwild: processes of one thread each change one table and one dense model in shared memory, lock-free."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection

import numpy as np
import torch
from torch import multiprocessing
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks import workload
from benchmarks.peer_torch import row_numbers
from benchmarks.serve import DENSE_LR, ROW_RANGE, Settings, serve, settings
from benchmarks.torch_model import Net


class Lane:
    """One process's loop over its share of the batches."""

    def __init__(self, chosen: Settings, number: int, net: Net, table: torch.Tensor) -> None:
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        train = chosen.read_train()
        share = slice(number * len(train) // chosen.threads, (number + 1) * len(train) // chosen.threads)
        part = train.rows(share.start, share.stop)
        self.size, self.lr, self.net, self.table = chosen.batch, chosen.lr, net, table
        self.x, self.y = torch.from_numpy(part.dense), torch.from_numpy(part.label)
        self.rows, self.weights = row_numbers(part, chosen.ids), list(net.parameters())
        self.next = 0

    def step(self) -> None:
        """Train the next batch of this lane's share."""
        size = self.size
        part = slice(self.next * size, (self.next + 1) * size)
        self.next = (self.next + 1) % (len(self.y) // size)
        rows = self.rows[part]
        looked_up = self.table.index_select(0, rows.view(-1)).requires_grad_()
        logit = self.net(self.x[part], looked_up.view(*rows.shape, -1))
        loss = binary_cross_entropy_with_logits(logit, self.y[part])
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
        torch.manual_seed(1)
        self.chosen = chosen
        self.net = Net(chosen.shape, chosen.model).share_memory()
        self.table = torch.empty(chosen.shape.slots * chosen.ids, self.net.width).uniform_(-ROW_RANGE, ROW_RANGE)
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
