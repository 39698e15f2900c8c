"""The paper's model families, and as many types of resource as are asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphs.ctrdnn import ctrdnn
from graphs.matchnet import matchnet
from graphs.nce import nce
from graphs.two_emb import two_emb
from heterps.graph import Graph
from heterps.hardware import Device, Hardware, Pool, catalogue
from heterps.planner import MinCost, Request
from heterps.planner.costs.planning_model import build_problem, server_pools
from heterps.planner.solve.large import listed
from heterps.planner.solve.problem import Problem

__all__ = ["FAMILIES", "family", "hardware", "problem_of"]

DEEP = (8, 12, 16, 20)  # layers of CTRDNN: the pull, the dense ones, the output
FAMILIES = (*(f"CTRDNN{layers}" for layers in DEEP), "2EMB", "MATCHNET", "NCE")
_WIDTHS = (1024, 1024, 512, 512, 512, 256, 256, 256, 256, 128, 128, 128, 128, 64, 64, 64, 64, 64)


def family(name: str) -> Graph:
    """A model of the paper's families, by name."""
    if name.startswith("CTRDNN"):
        return ctrdnn(hidden=_WIDTHS[: int(name.removeprefix("CTRDNN")) - 2])
    return {"2EMB": two_emb, "MATCHNET": matchnet, "NCE": nce}[name]()


def hardware(types: int, seed: int = 0) -> Hardware:
    """Pools of the catalogue's machines, CPU and GPU by turns; beyond their number, others like them.

    Such a machine has between half and twice the speed and the price of its model: cheaper is not always slower.
    """
    rng = np.random.default_rng(seed)
    known = [d for d in catalogue().values() if d.price_per_hour > 0]  # parts of machines have none of their own
    kinds = [[d for d in known if d.kind == kind] for kind in ("cpu", "gpu")]
    pools = []
    for i in range(types):
        like = kinds[i % 2]
        device = like[i // 2 % len(like)]
        name = f"{device.name}-{i}"
        pools.append(
            Pool(name, device if i // 2 < len(like) else _varied(device, name, rng), serves=device.kind == "cpu")
        )
    return Hardware(tuple(pools), ())


def _varied(device: Device, name: str, rng: np.random.Generator) -> Device:
    speed, price = 2.0 ** rng.uniform(-1, 1, 2)
    return replace(
        device,
        name=name,
        flops={dtype: rate * speed for dtype, rate in device.flops.items()},
        memory_bytes_per_s=device.memory_bytes_per_s * speed,
        price_per_hour=device.price_per_hour * price,
        source="made up from another",
    )


def problem_of(name: str, types: int, rows_per_second: float, batch_size: int = 4096) -> Problem:
    """The planning problem of a family over all its legal cuts."""
    request = Request(family(name), hardware(types), MinCost(rows_per_second), (batch_size,))
    costs = request.costs(batch_size)
    problem = listed(build_problem(costs, server_pools(costs)[0], {}))[0]
    return problem.calling(problem.shards.hosts(rows_per_second))
