"""Pools as Dask resources: the names workers declare and the arguments that declare them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from heterps.errors import ClusterError

__all__ = ["ALL", "COMPUTE", "GPU", "IO", "SERVER", "declared_pools", "pool_of", "resource_of"]

SERVER, IO, COMPUTE, GPU = "server", "io", "compute", "gpu"
ALL = tuple(sorted((SERVER, IO, COMPUTE)))
"""What a worker that declares nothing can do; a GPU is used by workers that say so."""
_PREFIX = "HPS_"
_GPU_RESOURCE = "GPU"  # what dask-cuda's workers declare


def resource_of(pool: str) -> str:
    """Return the resource that workers of a pool declare.

    >>> resource_of("io"), resource_of("gpu")
    ('HPS_IO', 'GPU')
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", pool):
        raise ClusterError(f"pool name {pool!r}: use small letters, digits and _, beginning with a letter")
    return _GPU_RESOURCE if pool == GPU else _PREFIX + pool.upper()


def pool_of(resource: str) -> str | None:
    """Return the pool that a resource stands for, None when it is none of ours."""
    if resource == _GPU_RESOURCE:
        return GPU
    return resource.removeprefix(_PREFIX).lower() if resource.startswith(_PREFIX) else None


def declared_pools(resources: Mapping[str, float]) -> tuple[str, ...]:
    """Return the pools a worker with these resources belongs to, by name."""
    found = (pool_of(resource) for resource, amount in resources.items() if amount > 0)
    return tuple(sorted(pool for pool in found if pool is not None))
