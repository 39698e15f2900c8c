"""Whether a plan fits the cluster that it is to run on."""

from __future__ import annotations

from heterps.errors import ClusterError
from heterps.hardware import Hardware, Pool
from heterps.planner.plan import Plan
from heterps.planner.show.figures import bytes_text, count_text

__all__ = ["findings", "validate"]

_SLOWER = 0.75  # below this part of the planned speed a warning is due


def validate(plan: Plan, hardware: Hardware) -> tuple[str, ...]:
    """Return warnings; raise where the plan cannot run.

    Raises
    ------
    ClusterError
        If a pool is missing, has too few workers, too little memory or is of another kind; all that is wrong at once.
    """
    errors, warnings = findings(plan, hardware)
    if errors:
        raise ClusterError("the cluster is not what the plan asks for:\n" + "\n".join(f"- {text}" for text in errors))
    return tuple(warnings)


def findings(plan: Plan, hardware: Hardware) -> tuple[list[str], list[str]]:
    """Return what makes the plan impossible there, and what makes its forecast doubtful."""
    errors: list[str] = []
    warnings: list[str] = []
    there = {pool.name: pool for pool in hardware.pools}
    for pool in plan.pools:
        if pool.name not in there:
            errors.append(f"pool {pool.name!r} is missing; pools found: {', '.join(there) or 'none'}")
            continue
        errors += _impossible(plan, pool, there[pool.name])
        warnings += _doubtful(pool, there[pool.name])
    return errors, warnings


def _impossible(plan: Plan, planned: Pool, found: Pool) -> list[str]:
    errors = []
    wanted = plan.units.get(planned.name, 0)
    if planned.name == plan.shard_pool and planned.host is None:
        wanted += plan.servers
    if found.cap is not None and found.cap < wanted:
        errors.append(
            f"pool {planned.name!r} has {found.cap} of {wanted} workers: start more, or plan for what is there"
        )
    need, has = plan.memory_bytes.get(planned.name, 0.0), found.device.memory_bytes
    if has < need:
        errors.append(f"a worker of pool {planned.name!r} needs {bytes_text(need)} and has {bytes_text(has)}")
    if found.kind != planned.kind and not found.emulated:
        errors.append(f"pool {planned.name!r} was planned as {planned.kind} and is {found.kind}")
    return errors


def _doubtful(planned: Pool, found: Pool) -> list[str]:
    warnings = []
    if found.emulated and not planned.emulated:
        warnings.append(f"pool {planned.name!r} is emulated: it runs NumPy, its times mean nothing for a GPU")
    before, now = planned.device.rate(), found.device.rate()
    if now < _SLOWER * before:
        warnings.append(f"pool {planned.name!r} does {count_text(now)}FLOP/s, planned with {count_text(before)}FLOP/s")
    before, now = planned.device.network_bytes_per_s, found.device.network_bytes_per_s
    if now < _SLOWER * before:
        warnings.append(f"network of pool {planned.name!r}: {bytes_text(now)}/s, planned with {bytes_text(before)}/s")
    return warnings
