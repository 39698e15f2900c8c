"""The three models in PyTorch, shared by the PyTorch, Hogwild and FBGEMM peers; first values as ours has them."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.serve import ROW_RANGE
from benchmarks.workload import Workload


def tower(widths: list[tuple[int, int]], last_relu: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in widths:
        layer = nn.Linear(inputs, outputs)
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*(layers if last_relu else layers[:-1]))


def first_rows(table: torch.Tensor, dim: int) -> torch.Tensor:
    """Fill rows with their first values: a small vector, and zero beside it for the first-order weight."""
    with torch.no_grad():
        table[:, :dim].uniform_(-ROW_RANGE, ROW_RANGE)
        table[:, dim:].zero_()
    return table


class Net(nn.Module):
    """Dense part of a model: looked-up rows ``[batch, slots, width]`` and dense features to logits.

    Column ``dim`` of a row is its wide (first-order) weight; DLRM has none.
    """

    def __init__(self, shape: Workload, model: str) -> None:
        super().__init__()
        self.shape, self.model = shape, model
        towers = shape.layers(model)
        self.top = tower(towers[-1], last_relu=False)
        if model == "dlrm":
            self.bottom = tower(towers[0], last_relu=True)
            low = torch.tril_indices(shape.slots + 1, shape.slots + 1, -1)
            self.register_buffer("pairs", low[0] * (shape.slots + 1) + low[1])

    @property
    def width(self) -> int:
        """Columns of a row."""
        return self.shape.dim + (self.model != "dlrm")

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Logits of a batch."""
        dim = self.shape.dim
        deep = rows[:, :, :dim]
        if self.model == "dlrm":
            return self.interact(self.bottom(x), deep)
        logit = self.top(torch.cat([x, deep.reshape(len(x), -1)], 1)).squeeze(1) + rows[:, :, dim].sum(1)
        if self.model == "deepfm":
            logit = logit + 0.5 * (deep.sum(1).square() - deep.square().sum(1)).sum(1)
        return logit

    def interact(self, below: torch.Tensor, deep: torch.Tensor) -> torch.Tensor:
        """Dot products of every pair of vectors, then the top tower."""
        vectors = torch.cat([below.unsqueeze(1), deep], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat([below, products], 1)).squeeze(1)
