"""PyTorch, one process: every slot in one table with sparse gradients, the wide weight beside the vector in its row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.serve import DENSE_LR, Settings, Stepwise, serve, settings
from benchmarks.torch_model import Net, first_rows
from benchmarks.workload import Samples


def row_numbers(samples: Samples, ids: int) -> torch.Tensor:
    return torch.from_numpy(samples.index.astype(np.int64) + np.arange(samples.index.shape[1]) * ids)


def batches(chosen: Settings) -> Callable[[int], tuple[torch.Tensor, ...]]:
    """The batch of a number from memory, or the next one of the file."""
    if chosen.source != "memory":
        from benchmarks.torch_files import from_files

        found = from_files(chosen)
        return lambda i: next(found)
    train, size = chosen.read_train(), chosen.batch
    held = torch.from_numpy(train.dense), row_numbers(train, chosen.ids), torch.from_numpy(train.label)
    return lambda i: tuple(column[i * size : (i + 1) * size] for column in held)


def build(chosen: Settings) -> Stepwise:
    torch.manual_seed(chosen.seed)
    torch.set_num_threads(chosen.threads)
    torch.set_flush_denormal(True)
    test, batch = chosen.read_test(), batches(chosen)
    net = Net(chosen.shape, chosen.model)
    table = nn.Embedding(chosen.shape.slots * chosen.ids, net.width, sparse=True)
    first_rows(table.weight, chosen.dim)
    dense_rule = torch.optim.SGD(net.parameters(), DENSE_LR)
    kind = torch.optim.Adagrad if chosen.rule == "adagrad" else torch.optim.SGD
    row_rule = kind(table.parameters(), chosen.lr)

    def step(i: int) -> None:
        x, rows, y = batch(i)
        loss = binary_cross_entropy_with_logits(net(x, table(rows)), y)
        dense_rule.zero_grad()
        row_rule.zero_grad()
        loss.backward()
        dense_rule.step()
        row_rule.step()

    @torch.no_grad()
    def predict() -> np.ndarray:
        x, rows = torch.from_numpy(test.dense), row_numbers(test, chosen.ids)
        return torch.cat([net(a, table(r)) for a, r in zip(x.split(4096), rows.split(4096), strict=True)]).numpy()

    return Stepwise(chosen.batch, chosen.train // chosen.batch, step, predict, test.label)


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: build(chosen))
