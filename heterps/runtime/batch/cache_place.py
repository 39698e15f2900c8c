"""Where the rows of a cache are: in the memory of the worker, or of the device that it computes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heterps.device.raw import runs_kernels
from heterps.errors import HardwareError, PlanError
from heterps.protocol.words.modes import Cached
from heterps.runtime.batch.device_memory import rows_bytes
from heterps.runtime.batch.devices import AUTO, ChosenDevice
from heterps.tables import GroupSpec
from heterps.tables.on_device.device_cache import cache_bytes, cached_within

if TYPE_CHECKING:
    from heterps.runtime.batch.job import Job

__all__ = ["CACHE_PLACES", "cached_groups", "caches_bytes", "check_cache_on", "check_cache_there"]

MEMORY, DEVICE = "memory", "device"
CACHE_PLACES = (AUTO, MEMORY, DEVICE)


def check_cache_on(job: Job) -> None:
    """Refuse a cache on a device where no run could have it."""
    if job.cache_on not in CACHE_PLACES:
        raise PlanError(f"cache_on={job.cache_on!r}; rows of a cache are in 'memory' or on the 'device', or 'auto'")
    if job.cache_on != DEVICE:
        return
    if not isinstance(job.mode, Cached):
        raise PlanError("cache_on='device', but no table has a cache: say how many rows (cache_rows=, --cache-rows)")
    if not job.fused:
        raise PlanError(
            f"cache_on='device': this plan has {len(job.stages)} stages, and its cache is where the data is read; use "
            "Plan.fused(...), or keep tables with the stage (storage='gpu') in place of a cache"
        )
    for group in _with_cache(job):
        foreign = next((table.rule for table in group.tables if table.rule.code < 0 and table.rule.cuda is None), None)
        if foreign is not None:
            name = type(foreign).__name__
            raise PlanError(
                f"cache_on='device': rule {name} of table {group.tables[0].name!r} has no CUDA body, so own steps "
                f"cannot be taken there; give {name} a class attribute 'cuda', or use cache_on='memory'"
            )


def cached_groups(job: Job, device: ChosenDevice) -> list[GroupSpec]:
    """Return the row groups whose cache is on the device: all that can, unless the job says otherwise."""
    if not isinstance(job.mode, Cached) or not job.fused or job.cache_on == MEMORY or device.library == "cpu":
        return []
    return [group for group in _with_cache(job) if _is_able(group, device)]


def _with_cache(job: Job) -> list[GroupSpec]:
    return [group for group in job.model.groups if job.cached_rows(group)]


def _is_able(group: GroupSpec, device: ChosenDevice) -> bool:
    """Whether the rules of a group can be applied there; a rule from outside needs a CUDA body and who runs it."""
    foreign = [table.rule for table in group.tables if table.rule.code < 0]
    return all(rule.cuda is not None and runs_kernels(device.xp) for rule in foreign)


def caches_bytes(job: Job, device: ChosenDevice) -> int:
    """Return what the rows of caches take of a device, beside those of batches under way."""
    return sum(cache_bytes(group, job.cached_rows(group)) for group in cached_groups(job, device))


def check_cache_there(job: Job, device: ChosenDevice, free_bytes: int | None) -> None:
    """Refuse a cache that is to be on a device and cannot, or does not fit there, with the rows that would.

    Raises
    ------
    HardwareError
        Before anything runs.
    """
    if job.cache_on == DEVICE and device.library == "cpu":
        raise HardwareError(
            f"cache_on='device', but {device} computes: ask for a device (device='gpu:0', --device gpu:0), or keep the "
            "cache in memory (cache_on='memory', --cache-on memory)"
        )
    groups, needed, room = cached_groups(job, device), caches_bytes(job, device), rows_bytes(free_bytes)
    if room is None or needed <= room:
        return
    shares = {_names(group): room * cache_bytes(group, job.cached_rows(group)) // needed for group in groups}
    fits = ", ".join(f"{_names(group)} {cached_within(group, shares[_names(group)]):,}" for group in groups)
    raise HardwareError(
        f"the cache of {' and '.join(shares)} takes {needed / 2**20:,.1f} MiB on {device}, which has "
        f"{room / 2**20:,.1f} MiB for rows (heterps.worker.gpu-rows); rows that would fit (--cache-rows): {fits}; or "
        "keep them in memory (cache_on='memory', --cache-on memory)"
    )


def _names(group: GroupSpec) -> str:
    return ", ".join(table.name for table in group.tables)
