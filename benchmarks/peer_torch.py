"""PyTorch, one process: every slot in one table with sparse gradients, the wide weight beside the vector in its row."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.serve import DENSE_LR, ROW_RANGE, Settings, Stepwise, serve, settings
from benchmarks.torch_model import Net
from benchmarks.workload import Samples


def row_numbers(samples: Samples, ids: int) -> torch.Tensor:
    return torch.from_numpy(samples.index.astype(np.int64) + np.arange(samples.index.shape[1]) * ids)


def build(chosen: Settings) -> Stepwise:
    torch.manual_seed(1)
    torch.set_num_threads(chosen.threads)
    torch.set_flush_denormal(True)
    train, test, size = chosen.read_train(), chosen.read_test(), chosen.batch
    x, rows, y = torch.from_numpy(train.dense), row_numbers(train, chosen.ids), torch.from_numpy(train.label)
    net = Net(chosen.shape, chosen.model)
    table = nn.Embedding(chosen.shape.slots * chosen.ids, net.width, sparse=True)
    nn.init.uniform_(table.weight, -ROW_RANGE, ROW_RANGE)
    dense_rule = torch.optim.SGD(net.parameters(), DENSE_LR)
    kind = torch.optim.Adagrad if chosen.rule == "adagrad" else torch.optim.SGD
    row_rule = kind(table.parameters(), chosen.lr)

    def step(i: int) -> None:
        part = slice(i * size, (i + 1) * size)
        loss = binary_cross_entropy_with_logits(net(x[part], table(rows[part])), y[part])
        dense_rule.zero_grad()
        row_rule.zero_grad()
        loss.backward()
        dense_rule.step()
        row_rule.step()

    @torch.no_grad()
    def predict() -> np.ndarray:
        x, rows = torch.from_numpy(test.dense), row_numbers(test, chosen.ids)
        return torch.cat([net(a, table(r)) for a, r in zip(x.split(4096), rows.split(4096), strict=True)]).numpy()

    return Stepwise(size, len(y) // size, step, predict, test.label)


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: build(chosen))
