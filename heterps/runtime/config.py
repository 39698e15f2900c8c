"""The dask config namespace ``heterps``: defaults in ``config.yaml``, read into a frozen value."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import dask
import yaml
from dask.utils import parse_bytes, parse_timedelta

from heterps.errors import ClusterError

__all__ = ["Settings", "bytes_of", "defaults", "settings"]


@dataclass(frozen=True)
class Settings:
    """What ``heterps:`` in Dask's config says; ``config.yaml`` beside this file documents every key.

    Durations are in seconds.
    """

    prefetch: int
    bucket_bytes: int
    retries: int
    full_every: int
    connect_s: float
    workers_s: float
    call_s: float
    make_s: float
    leave_s: float
    progress_s: float
    orphans_s: float
    copy_rate: int
    stragglers_s: float
    stragglers_factor: int
    bad_losses: int
    strict_pools: bool
    watch: bool
    blas_threads: int | None
    table_threads: int
    hot_rows_bytes: int | None
    disk_folder: str | None
    gpu_rows_bytes: int | None
    switch_interval_s: float
    calm: bool
    warm: bool
    max_restarts: int
    start_s: float
    grace_s: float
    trusted_network: bool
    shared_memory: bool
    unix_sockets: bool


@functools.cache
def defaults() -> Mapping[str, Any]:
    """Return the shipped ``config.yaml``."""
    data = yaml.safe_load(resources.files("heterps.runtime").joinpath("config.yaml").read_text())
    assert isinstance(data, dict)
    return data


def settings() -> Settings:
    """Read the settings as they are now.

    Raises
    ------
    ClusterError
        When a key is unknown or a value cannot be used; the message names it.
    """
    # Asked for with every call of an actor, and slow to read: read again when something was changed.
    told = repr(dask.config.get("heterps", {}))
    known = _KNOWN.get(told)
    if known is None:
        known = _read()
        if repr(dask.config.get("heterps", {})) == told:  # else another thread changes it right now
            _KNOWN.clear()
            _KNOWN[told] = known
    return known


_KNOWN: dict[str, Settings] = {}  # the settings that were read last, by what the config said


def _read() -> Settings:
    _refuse_unknown(dask.config.get("heterps", {}), defaults()["heterps"], "heterps")
    blas = _get("worker.blas-threads")
    return Settings(
        prefetch=_count("prefetch", least=0),
        bucket_bytes=_bytes("bucket"),
        retries=_count("retries", least=0),
        full_every=_count("cuts.full-every", least=1),
        connect_s=_seconds("timeouts.connect"),
        workers_s=_seconds("timeouts.workers"),
        call_s=_seconds("timeouts.call", least=1e-3),
        make_s=_seconds("timeouts.make", least=1e-3),
        leave_s=_seconds("timeouts.leave"),
        progress_s=_seconds("timeouts.progress", least=1e-3),
        orphans_s=_seconds("orphans"),
        copy_rate=_bytes("replicas.copy-rate"),
        stragglers_s=_seconds("stragglers.after"),
        stragglers_factor=_count("stragglers.factor", least=2),
        bad_losses=_count("bad-losses", least=0),
        strict_pools=_get("strict-pools") is True,
        watch=_get("watch") is True,
        blas_threads=None if blas is None else _count("worker.blas-threads", least=1),
        table_threads=_count("worker.table-threads", least=1),
        hot_rows_bytes=None if _get("worker.hot-rows") is None else _bytes("worker.hot-rows"),
        disk_folder=None if _get("worker.disk-folder") is None else str(_get("worker.disk-folder")),
        gpu_rows_bytes=None if _get("worker.gpu-rows") is None else _bytes("worker.gpu-rows"),
        switch_interval_s=_seconds("worker.switch-interval"),
        calm=_get("worker.calm") is True,
        warm=_get("worker.warm") is True,
        max_restarts=_count("launcher.max-restarts", least=0),
        start_s=_seconds("launcher.start"),
        grace_s=_seconds("launcher.grace"),
        trusted_network=_get("network.trusted") is True,
        shared_memory=_get("network.shared-memory") is True,
        unix_sockets=_get("network.unix-sockets") is True,
    )


def bytes_of(memory: int | str | None) -> int | None:
    """Read an amount of memory such as ``"8GiB"``.

    Raises
    ------
    ClusterError
        Where it is none, or not more than nothing.
    """
    if memory is None:
        return None
    try:
        found = int(parse_bytes(memory)) if any(map(str.isdigit, str(memory))) else 0
    except (ValueError, TypeError):
        found = 0
    if found < 1:
        raise ClusterError(f"memory {memory!r}: must be a number of bytes such as 8GiB or 500MB")
    return found


def _get(key: str) -> Any:
    return dask.config.get(f"heterps.{key}")


def _count(key: str, least: int) -> int:
    value = _get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ClusterError(f"dask config heterps.{key} is {value!r}, must be a whole number of at least {least}")
    return value


def _seconds(key: str, least: float = 0.0) -> float:
    value = _get(key)
    try:
        seconds = float(parse_timedelta(value, default="seconds"))
    except (ValueError, TypeError, KeyError, AttributeError):
        seconds = -1.0
    if not least <= seconds < float("inf"):
        at_least = f" of at least {least:g} s" if least else ""
        raise ClusterError(f"dask config heterps.{key} is {value!r}, must be a duration{at_least} such as 30s or 5ms")
    return seconds


def _bytes(key: str) -> int:
    value = _get(key)
    try:
        found = bytes_of(value)
    except ClusterError:
        found = None
    if found is None:
        raise ClusterError(f"dask config heterps.{key} is {value!r}, must be a number of bytes such as 256MiB")
    return found


def _refuse_unknown(found: Any, known: Mapping[str, Any], where: str) -> None:
    """A misspelt key would otherwise be ignored in silence."""
    if not isinstance(found, Mapping):
        raise ClusterError(f"dask config {where} is {found!r}, must have keys: {', '.join(known)}")
    names = {_plain(key): key for key in known}
    for key, value in found.items():
        if _plain(key) not in names:
            raise ClusterError(f"dask config {where}.{key} is not known; known: {', '.join(known)}")
        inner = known[names[_plain(key)]]
        if isinstance(inner, Mapping):
            _refuse_unknown(value, inner, f"{where}.{key}")


def _plain(key: object) -> str:
    return str(key).replace("_", "-")  # Dask takes both spellings


dask.config.update_defaults(defaults())
