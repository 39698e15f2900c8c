"""Which GPU each worker of a machine sees: one process, one GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence

from heterps.errors import ClusterError
from heterps.hardware.visible import ListedGpu, is_gpu_name, listed_gpus, visible_gpus, words_of
from heterps.runtime.cluster.resources import GPU

__all__ = ["deal_gpus", "gpus_here", "is_gpu_pool"]


def is_gpu_pool(pool: str) -> bool:
    """Whether workers of a pool have a GPU each: ``gpu``, or a pool with a GPU's name such as ``v100``."""
    return pool == GPU or is_gpu_name(pool)


def gpus_here() -> tuple[ListedGpu, ...]:
    """Return the GPUs that this process may give to workers."""
    return visible_gpus(listed_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def deal_gpus(pools: Sequence[str], gpus: Sequence[ListedGpu]) -> tuple[str | None, ...]:
    """Return for each worker what its CUDA_VISIBLE_DEVICES says; None for workers without a GPU.

    A pool named after a GPU takes those of that model; ``gpu`` takes what is left. Where the machine has none, workers
    are numbered all the same: they say themselves why they cannot use one.

    Raises
    ------
    ClusterError
        Where there are GPUs, but not enough of them, or none of the model.
    """
    wanted = [i for i, pool in enumerate(pools) if is_gpu_pool(pool)]
    if not gpus:
        return tuple(str(wanted.index(i)) if i in wanted else None for i in range(len(pools)))
    left, dealt = list(gpus), dict[int, str]()
    for i in sorted(wanted, key=lambda i: pools[i] == GPU):  # those that take any come last
        fitting = [gpu for gpu in left if pools[i] == GPU or words_of(gpu.model).issuperset(pools[i].split("_"))]
        if not fitting:
            there = ", ".join(gpu.model for gpu in gpus)
            raise ClusterError(
                f"pool {pools[i]!r}: {pools.count(pools[i])} workers wanted, and no GPU is left for one of them; one "
                f"process has one GPU. This machine lets us use: {there}"
            )
        left.remove(fitting[0])
        dealt[i] = fitting[0].called
    return tuple(dealt.get(i) for i in range(len(pools)))
