"""Measured rates of pools, as a value; what was not measured is derived from the device's figures."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from heterps.documents import read_json
from heterps.errors import PlanError
from heterps.fields import Count, Found, Fraction, NotNegative, Positive, check_fields
from heterps.hardware import Device
from heterps.writing import write_whole

__all__ = ["Line", "Profile", "Rates", "fit_fraction", "fit_line"]

_FORMAT = "heterps-profile/1"
# Per core, where nothing was measured. A parser reads some 150 MB/s of finished columns; a hash probe that misses the
# caches takes about 60 ns, one that hits them a quarter of it; a remote call keeps a core busy for 0.5 ms, and so does
# the engine with a batch.
_READ_BYTES_PER_S = 150e6
_DEDUPE_S_PER_ID = 15e-9
_ROW_S = 60e-9
_CALL_S = 0.5e-3
_BATCH_S = 0.5e-3
_WIRE_BYTES_PER_S = 2e9


@dataclass(frozen=True)
class Line:
    """Seconds as ``fixed_s + s_per_item * items``."""

    fixed_s: NotNegative = 0.0
    s_per_item: NotNegative = 0.0

    def __call__(self, items: float) -> float:
        """Return the seconds for so many items."""
        return self.fixed_s + self.s_per_item * items


@dataclass(frozen=True)
class Rates:
    """What one unit of a pool takes for each kind of work.

    Parameters
    ----------
    read
        Seconds by rows read.
    dedupe
        Seconds by ids of a batch: unique ids and routing.
    pull, push
        Seconds of a shard host by unique rows.
    create_s
        Of a shard host for each row that is asked for the first time, over one that is there.
    merge_s
        Of a shard host for each row of a lane whose gradient it keeps and adds to those of the other lanes.
    dense
        Seconds of a shard host by dense parameters updated.
    layers
        Seconds of a Layer by rows, forward and backward, for those that were measured.
    flops_per_s, bytes_per_s, launch_s
        For Layers that were not: the roofline, and the start of an op.
    call_s, wire_s_per_byte
        What a remote call, and a byte sent or received, take of the unit's own time.
    network_bytes_per_s
        What passes over its network.
    batch_s
        What the engine itself takes of the unit that reads, per batch: protocol, queues, events.
    idle_cores
        Cores that a worker takes to be there at all: heartbeats, monitors.
    compute_fraction, data_fraction
        Parallel parts: how much of the work more units divide.
    source
        ``"measured"`` or where the figures come from.
    """

    read: Line
    dedupe: Line
    pull: Line
    push: Line
    dense: Line
    flops_per_s: Positive
    bytes_per_s: Positive
    launch_s: NotNegative
    call_s: NotNegative
    wire_s_per_byte: NotNegative
    network_bytes_per_s: Positive
    create_s: NotNegative = 0.0
    merge_s: NotNegative = 0.0
    batch_s: NotNegative = 0.0
    idle_cores: NotNegative = 0.0
    layers: Mapping[str, Line] = field(default_factory=dict)
    compute_fraction: Fraction = 1.0
    data_fraction: Fraction = 1.0
    source: str = ""

    def __post_init__(self) -> None:
        check_fields(self, PlanError, "rates of a pool")

    @classmethod
    def of(cls, device: Device, row_bytes: float = 264.0) -> Rates:
        """Derive rates from a device's figures; ``row_bytes`` is the size of a finished row of data."""
        per_core = 1.0 / device.cores
        moved = 1 / (device.memory_bytes_per_s * device.efficiency)
        return cls(
            read=Line(0.0, row_bytes / _READ_BYTES_PER_S * per_core),
            dedupe=Line(0.0, _DEDUPE_S_PER_ID * per_core),
            pull=Line(0.0, _ROW_S * per_core),
            push=Line(0.0, 2 * _ROW_S * per_core),
            dense=Line(0.0, 6 * 4 * moved),
            flops_per_s=device.rate(),
            bytes_per_s=1 / moved,
            launch_s=device.launch_s,
            call_s=_CALL_S * per_core,
            wire_s_per_byte=per_core / _WIRE_BYTES_PER_S,
            network_bytes_per_s=device.network_bytes_per_s,
            batch_s=_BATCH_S * per_core,
            source=f"derived from {device.name} ({device.source or 'no source given'})",
        )


@dataclass(frozen=True)
class Profile:
    """Rates by pool, with the batch sizes they were fitted over and the unique fraction that was seen."""

    pools: Mapping[str, Rates]
    batch_sizes: tuple[Count, ...] = ()
    unique_fraction: Fraction | None = None
    notes: tuple[str, ...] = ()

    def rates(self, pool: str, device: Device, row_bytes: float) -> Rates:
        """Rates of a pool: measured, or derived from its device."""
        return self.pools[pool] if pool in self.pools else Rates.of(device, row_bytes)

    def with_pool(self, pool: str, rates: Rates) -> Profile:
        """Return a profile that also knows this pool."""
        return replace(self, pools={**self.pools, pool: rates})

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"format": _FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | Found) -> Profile:
        """Inverse of :meth:`to_json`."""
        found = Found.of(data, PlanError, "profile")
        if "format" not in found.members():
            found.fault("no profile; `heterps profile --out` saves one")
        found["format"].read(Literal[_FORMAT])
        return found.without("format").make(cls)

    def save(self, path: str | pathlib.Path) -> None:
        """Write the profile as JSON."""
        write_whole(path, json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | pathlib.Path) -> Profile:
        """Read a profile that :meth:`save` wrote."""
        return cls.from_json(read_json(path, PlanError))


def fit_line(items: Mapping[float, float]) -> Line:
    """Fit seconds by number of items through measured points; neither part is negative."""
    points = sorted(items.items())
    (n0, s0), (n1, s1) = points[0], points[-1]
    slope = max(0.0, (s1 - s0) / (n1 - n0)) if n1 > n0 else s1 / n1
    fixed = max(0.0, s1 - slope * n1)
    return Line(fixed, slope) if fixed else Line(0.0, s1 / n1)


def fit_fraction(seconds_alone: float, seconds_shared: float, units: int) -> float:
    """Parallel part from the time of one work item on one unit, and per item while ``units`` of them work at once.

    Amdahl: ``shared = alone * (1 - f + f / units)``.
    """
    if units < 2 or seconds_alone <= 0:
        return 1.0
    ratio = seconds_shared / seconds_alone
    return min(1.0, max(0.0, (1 - ratio) / (1 - 1 / units)))
