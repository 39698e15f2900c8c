"""PyTorch on slots with lists of ids: one EmbeddingBag over all slots, sparse gradients, a bag a slot and sample."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.serve import DENSE_LR, Settings, Stepwise, serve, settings
from benchmarks.torch_model import first_rows, tower
from benchmarks.workload import ListSamples, Samples


def batches(samples: Samples, ids: int, size: int) -> list[tuple[torch.Tensor, ...]]:
    """Dense features, ids, where bags begin, and labels of each batch."""
    assert isinstance(samples, ListSamples)
    parts = [samples.rows(i, i + size) for i in range(0, len(samples), size)]
    return [tuple(map(torch.from_numpy, (part.dense, *part.by_sample(ids), part.label))) for part in parts]


def build(chosen: Settings) -> Stepwise:
    torch.manual_seed(chosen.seed)
    torch.set_num_threads(chosen.threads)
    torch.set_flush_denormal(True)
    shape, test = chosen.shape, chosen.read_test()
    held = batches(chosen.read_train(), chosen.ids, chosen.batch)
    table = nn.EmbeddingBag(shape.slots * chosen.ids, shape.dim, mode="sum", sparse=True)
    first_rows(table.weight, shape.dim)
    net = tower(shape.layers(chosen.model)[-1], last_relu=False)
    dense_rule, row_rule = (torch.optim.SGD(m.parameters(), lr) for m, lr in ((net, DENSE_LR), (table, chosen.lr)))

    def logits(x: torch.Tensor, ids: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        return net(torch.cat([x, table(ids, begins).view(len(x), -1)], 1)).squeeze(1)

    def step(i: int) -> None:
        *features, y = held[i]
        loss = binary_cross_entropy_with_logits(logits(*features), y)
        dense_rule.zero_grad()
        row_rule.zero_grad()
        loss.backward()
        dense_rule.step()
        row_rule.step()

    @torch.no_grad()
    def predict() -> np.ndarray:
        return torch.cat([logits(*features) for *features, _ in batches(test, chosen.ids, 4096)]).numpy()

    return Stepwise(chosen.batch, len(held), step, predict, test.label)


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: build(chosen))
