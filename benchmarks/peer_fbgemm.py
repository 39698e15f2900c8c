"""PyTorch with FBGEMM's fused table-batched embeddings on the CPU: SGD or row-wise AdaGrad inside the backward pass."""

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
from benchmarks.torch_model import Net, first_rows
from benchmarks.workload import Samples


def by_slot(samples: Samples, size: int) -> torch.Tensor:
    """Ids ``[batches, slots * size]``, slot after slot within each batch, as the operator wants them."""
    whole = samples.index[: len(samples) // size * size].astype(np.int64)
    batches = whole.reshape(-1, size, whole.shape[1]).transpose(0, 2, 1)
    return torch.from_numpy(np.ascontiguousarray(batches).reshape(len(batches), -1))


def build(chosen: Settings) -> Stepwise:
    torch.manual_seed(chosen.seed)
    torch.set_num_threads(chosen.threads)
    torch.set_flush_denormal(True)
    train, test, size, slots = chosen.read_train(), chosen.read_test(), chosen.batch, chosen.shape.slots
    x, ids, y = torch.from_numpy(train.dense), by_slot(train, size), torch.from_numpy(train.label)
    net = Net(chosen.shape, chosen.model)
    width = -(-net.width // 4) * 4  # the operator takes widths that are multiples of four
    rule = OptimType.EXACT_SGD if chosen.rule == "sgd" else OptimType.EXACT_ROWWISE_ADAGRAD
    table = SplitTableBatchedEmbeddingBagsCodegen(
        [(chosen.ids, width, EmbeddingLocation.HOST, ComputeDevice.CPU)] * slots,
        optimizer=rule,
        learning_rate=chosen.lr,
        pooling_mode=PoolingMode.SUM,
        eps=1e-8,
    )
    for rows in table.split_embedding_weights():
        first_rows(rows, chosen.dim)
    dense_rule = torch.optim.SGD(net.parameters(), DENSE_LR)

    def lookup(flat: torch.Tensor) -> torch.Tensor:
        return table(flat, torch.arange(len(flat) + 1)).view(-1, slots, width)

    offsets = torch.arange(slots * size + 1)

    def step(i: int) -> None:
        part = slice(i * size, (i + 1) * size)
        rows = table(ids[i], offsets).view(size, slots, width)
        loss = binary_cross_entropy_with_logits(net(x[part], rows), y[part])
        dense_rule.zero_grad()
        loss.backward()
        dense_rule.step()

    @torch.no_grad()
    def predict() -> np.ndarray:
        x, parts = torch.from_numpy(test.dense), by_slot(test, 1)
        return torch.cat(
            [net(x[i : i + 4096], lookup(_slot_major(parts[i : i + 4096]))) for i in range(0, len(x), 4096)]
        ).numpy()

    return Stepwise(size, len(y) // size, step, predict, test.label)


def _slot_major(rows: torch.Tensor) -> torch.Tensor:
    return rows.t().contiguous().view(-1)


if __name__ == "__main__":
    chosen = settings()
    serve(lambda: build(chosen))
