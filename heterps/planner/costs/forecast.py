"""What a plan is expected to do: time by part, busy fractions, bytes, memory, money, and how that is proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace

__all__ = ["FULFILLED", "Certificate", "Cost", "Forecast", "Rival", "StageForecast", "TableForecast"]

NO_PROOF = "none: "  # begins what a certificate says that is none
FULFILLED = 0.9  # of a forecast: a plan that is played below says so


@dataclass(frozen=True)
class Cost:
    """Work of one batch on one unit, by part. Seconds of different parts overlap where the model says so.

    ``read_s`` files to batches; ``dedupe_s`` unique ids and routing; ``pull_s`` and ``push_s`` table rows, on the
    worker's side; ``kernel_s`` forward and backward; ``bus_s`` between host and device memory; ``network_s`` rows and
    activations over the network, in the busier direction; ``call_s`` fixed time of calls; ``engine_s`` what a batch
    takes besides all that: protocol, queues, events; ``network_bytes`` and ``memory_bytes`` (moved in memory) likewise
    per batch.
    """

    read_s: float = 0.0
    dedupe_s: float = 0.0
    pull_s: float = 0.0
    push_s: float = 0.0
    kernel_s: float = 0.0
    bus_s: float = 0.0
    network_s: float = 0.0
    call_s: float = 0.0
    engine_s: float = 0.0
    network_bytes: float = 0.0
    memory_bytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        mine, theirs = vars(self), vars(other)
        return Cost(*(mine[name] + theirs[name] for name in _COST_FIELDS))

    def slowed(self, factor: float) -> Cost:
        """Return the cost with its seconds, data on its way apart, so many times as long."""
        if factor == 1:
            return self
        worked = {name: value * factor for name, value in self.parts().items() if name not in ("network_s", "bus_s")}
        return replace(self, **worked)

    @property
    def compute_s(self) -> float:
        """Seconds for which the unit itself is busy."""
        worked = self.read_s + self.dedupe_s + self.pull_s + self.push_s + self.kernel_s
        return worked + self.call_s + self.engine_s

    @property
    def data_s(self) -> float:
        """Seconds for which data is on its way while the unit can work on another batch."""
        return self.network_s + self.bus_s

    def parts(self) -> dict[str, float]:
        """Seconds by part, those that are not zero, largest first."""
        seconds = {name: value for name, value in asdict(self).items() if name.endswith("_s") and value > 0}
        return dict(sorted(seconds.items(), key=lambda item: -item[1]))


_COST_FIELDS = tuple(field.name for field in fields(Cost))


@dataclass(frozen=True)
class StageForecast:
    """One stage: its work per batch on one unit, and the fraction of its capacity that the plan uses."""

    stage: str
    cost: Cost
    busy: float
    rows_per_second: float  # what the stage alone could do with its units
    memory_bytes: float  # of one worker
    limit: str = ""  # the part that bounds it, as text


@dataclass(frozen=True)
class TableForecast:
    """Rows of one row group at the end of the job, and where they are kept."""

    group: str
    rows: float
    bytes: float
    tier: str = "memory"  # memory | ssd, of shard hosts; gpu | gpu+ssd, below the GPU that trains them
    basis: str = ""  # how the number of rows was found


@dataclass(frozen=True)
class Rival:
    """A plan that lost, and why."""

    name: str
    price_per_million_rows: float | None
    rows_per_second: float | None
    why: str


@dataclass(frozen=True)
class Forecast:
    """What the model says about a plan."""

    rows_per_second: float
    stages: tuple[StageForecast, ...] = ()
    bottleneck: str = ""
    price_per_hour: float = 0.0
    price_parts: Mapping[str, float] = field(default_factory=dict)  # per hour, by pool and "shard hosts"
    link_bytes_per_s: Mapping[str, float] = field(default_factory=dict)  # by "from pool - to pool"
    shard_busy: float = 0.0
    tables: tuple[TableForecast, ...] = ()
    data_sheet: tuple[str, ...] = ()  # GPU pools whose rates nobody measured
    played: float | None = None  # rows per second when the plan is played in its mode; None: it was not
    asked: float = 0.0  # rows per second that were asked for

    @property
    def falls_short(self) -> bool:
        """Whether the plan, played, stays far below what was forecast."""
        return self.played is not None and self.played < FULFILLED * self.rows_per_second

    @property
    def misses(self) -> bool:
        """Whether the plan, played, stays below what was asked for."""
        return self.falls_short and self.played is not None and self.played < self.asked

    @property
    def price_per_million_rows(self) -> float:
        """Money for a million rows at the forecast throughput."""
        return self.price_per_hour / 3600 * 1e6 / self.rows_per_second if self.rows_per_second else 0.0

    @property
    def busy(self) -> dict[str, float]:
        """Busy fraction by stage."""
        return {stage.stage: stage.busy for stage in self.stages}


@dataclass(frozen=True)
class Certificate:
    """How good the plan is known to be, inside the model.

    ``value`` is what was minimised (or maximised), ``bound`` what no plan can beat, ``gap`` their relative distance:
    0 means proved, if it is a proof. ``proof`` says in words what the bound rests on.
    """

    solver: str
    objective: str
    value: float
    bound: float
    gap: float
    proof: str = ""
    solves: int = 0
    seconds: float = 0.0

    @property
    def is_proof(self) -> bool:
        """Whether the bound holds for all plans, and not only for those of a solver's kind."""
        return not self.proof.startswith(NO_PROOF)
