"""FBGEMM on slots with lists of ids: fused table-batched embeddings with offsets, summed, SGD inside the backward."""

from __future__ import annotations

import fbgemm_gpu  # noqa: F401  (registers the operators)
import numpy as np
import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_common import PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    EmbeddingLocation,
    OptimType,
    SplitTableBatchedEmbeddingBagsCodegen,
)
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.serve import DENSE_LR, Settings, Stepwise, serve, settings
from benchmarks.torch_model import first_rows, tower
from benchmarks.workload import ListSamples, Samples


def batches(samples: Samples, size: int) -> list[tuple[torch.Tensor, ...]]:
    """Dense features, ids slot after slot, where bags begin, and labels of each batch."""
    assert isinstance(samples, ListSamples)
    parts = [samples.rows(i, i + size) for i in range(0, len(samples), size)]
    return [tuple(map(torch.from_numpy, (part.dense, *part.by_slot(), part.label))) for part in parts]


def build(chosen: Settings) -> Stepwise:
    torch.manual_seed(chosen.seed)
    torch.set_num_threads(chosen.threads)
    torch.set_flush_denormal(True)
    shape, test, held = chosen.shape, chosen.read_test(), batches(chosen.read_train(), chosen.batch)
    table = SplitTableBatchedEmbeddingBagsCodegen(
        [(chosen.ids, shape.dim, EmbeddingLocation.HOST, ComputeDevice.CPU)] * shape.slots,
        optimizer=OptimType.EXACT_SGD if chosen.rule == "sgd" else OptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=chosen.lr,
        pooling_mode=PoolingMode.SUM,
        eps=1e-8,
    )
    for rows in table.split_embedding_weights():
        first_rows(rows, shape.dim)
    net = tower(shape.layers(chosen.model)[-1], last_relu=False)
    dense_rule = torch.optim.SGD(net.parameters(), DENSE_LR)

    def logits(x: torch.Tensor, ids: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        return net(torch.cat([x, table(ids, begins)], 1)).squeeze(1)

    def step(i: int) -> None:
        *features, y = held[i]
        loss = binary_cross_entropy_with_logits(logits(*features), y)
        dense_rule.zero_grad()
        loss.backward()
        dense_rule.step()

    @torch.no_grad()
    def predict() -> np.ndarray:
        return torch.cat([logits(*features) for *features, _ in batches(test, 4096)]).numpy()

    return Stepwise(chosen.batch, len(held), step, predict, test.label)


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: build(chosen))
