"""The peers' side of ``benchmarks/tables.py``: run inside a peer's environment, prints one JSON line per measurement.

Usage: ``python peer_tables.py SYSTEM IDS SECONDS`` with SYSTEM one of torch, torch26, fbgemm-sgd, fbgemm-rowwise.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

BATCH, SLOTS, DIM = 4096, 26, 16


def batches(ids: int, n: int = 20) -> list[np.ndarray]:
    """The same batches as in ``tables.py``: positions within each slot."""
    rng = np.random.default_rng(0)
    return [np.minimum(rng.zipf(1.1, (BATCH, SLOTS)), 50 * ids) % ids for _ in range(n)]


def torch_one(ids: int) -> tuple[list[torch.Tensor], Callable[[torch.Tensor], None]]:
    table = torch.nn.EmbeddingBag(ids * SLOTS, DIM, mode="sum", sparse=True)
    rule = torch.optim.SGD(table.parameters(), 0.01)
    offsets, grad = torch.arange(BATCH * SLOTS), torch.ones(BATCH * SLOTS, DIM)

    def step(batch: torch.Tensor) -> None:
        rule.zero_grad()
        table(batch, offsets).backward(grad)
        rule.step()

    return [torch.from_numpy((b + np.arange(SLOTS) * ids).ravel()) for b in batches(ids)], step


def torch_26(ids: int) -> tuple[list[torch.Tensor], Callable[[torch.Tensor], None]]:
    tables = [torch.nn.EmbeddingBag(ids, DIM, mode="sum", sparse=True) for _ in range(SLOTS)]
    rule = torch.optim.SGD([table.weight for table in tables], 0.01)
    offsets, grad = torch.arange(BATCH), torch.ones(BATCH, SLOTS * DIM)

    def step(batch: torch.Tensor) -> None:
        rule.zero_grad()
        torch.cat([table(batch[k], offsets) for k, table in enumerate(tables)], 1).backward(grad)
        rule.step()

    return [torch.from_numpy(np.ascontiguousarray(b.T)) for b in batches(ids)], step


def fbgemm(ids: int, rule: str) -> tuple[list[torch.Tensor], Callable[[torch.Tensor], None]]:
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice,
        SplitTableBatchedEmbeddingBagsCodegen,
    )

    kinds = {"sgd": EmbOptimType.EXACT_SGD, "rowwise": EmbOptimType.EXACT_ROWWISE_ADAGRAD}
    specs = [(ids, DIM, EmbeddingLocation.HOST, ComputeDevice.CPU)] * SLOTS
    table = SplitTableBatchedEmbeddingBagsCodegen(specs, optimizer=kinds[rule], learning_rate=0.01)
    offsets, grad = torch.arange(BATCH * SLOTS + 1), torch.ones(BATCH, SLOTS * DIM)

    def step(batch: torch.Tensor) -> None:
        table(batch, offsets).backward(grad)

    return [torch.from_numpy(np.ascontiguousarray(b.T).ravel()) for b in batches(ids)], step


SYSTEMS = {
    "torch": torch_one,
    "torch26": torch_26,
    "fbgemm-sgd": lambda ids: fbgemm(ids, "sgd"),
    "fbgemm-rowwise": lambda ids: fbgemm(ids, "rowwise"),
}


def main(system: str, ids: int, seconds: float) -> None:
    torch.set_num_threads(1)
    inputs, step = SYSTEMS[system](ids)
    for batch in inputs:
        step(batch)
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for batch in inputs:
            start = time.thread_time()
            step(batch)
            times.append(time.thread_time() - start)
    print(json.dumps({"system": system, "median_ms": 1e3 * float(np.median(times))}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
