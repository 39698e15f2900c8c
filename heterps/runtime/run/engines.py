"""What an engine is, and the table of engines by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, runtime_checkable

from heterps.data import Dataset
from heterps.errors import UnknownKindError
from heterps.hardware import Hardware
from heterps.metrics import Metric
from heterps.planner.plan import Plan
from heterps.runtime.batch.inference import Inferred
from heterps.runtime.batch.job import Job
from heterps.runtime.cuts.carried import Carried
from heterps.runtime.cuts.checkpoints import Held
from heterps.runtime.report.progress import Progress

__all__ = [
    "ENGINES",
    "Engine",
    "PredictsThere",
    "Scalable",
    "Watchable",
    "choose_engine",
    "hardware_for",
    "make_engine",
    "runs_here",
]

_T = TypeVar("_T")


class Engine(Protocol):
    """Runs a :class:`~heterps.runtime.batch.job.Job`: holds the tables, trains, infers. One caller at a time.

    Whatever the engine, in Sync mode a job gives bitwise the same tables on one kind of machine.
    """

    @property
    def job(self) -> Job:
        """What it runs."""

    def train(self, dataset: Dataset, epochs: int, fetch: Mapping[str, str] | None = None) -> Iterator[Progress]:
        """Train, yielding Progress now and then; the last one is ``done``.

        Each call goes on from the tables of the call before, with passes of its own. Closing the iterator ends
        training at the next batch: what was applied stays. ``fetch`` names ops whose values for a recent batch stand
        in ``Progress.fetched``.
        """

    def infer(
        self, dataset: Dataset, metrics: Sequence[Metric] = (), fetch: Mapping[str, str] | None = None
    ) -> Iterator[Inferred]:
        """Run forward only on every Split of an unshuffled dataset, yielding results in the order of Splits.

        ``fetch`` maps names to sources (see :func:`~heterps.runtime.batch.inference.sources_of`). Ids never trained on
        read as zeros; nothing changes.
        """

    passes: int
    """Passes since the tables were fresh: the number of the next one, or of a run's first while it goes on."""

    @property
    def next_pass(self) -> int:
        """Number of the next pass of which no batch is in the tables."""

    held: Held
    """What the tables hold between runs; whoever changes them says so."""

    carried: Carried
    """What a training carries from run to run beside its tables; a run that is resumed replaces it by the cut's."""

    @property
    def bad_streak(self) -> int:
        """How many batches, up to the last one counted, had a loss that is no finite number."""

    def at_rest(self, act: Callable[[], _T], changes: bool = False) -> _T:
        """Call ``act`` while nothing is in flight: at once between runs; during one, from the thread that iterates over
        its Progress, as soon as the batches under way are applied everywhere. One that changes tables says so: a run
        that makes cuts makes one then.
        """

    def each_shard(self, function: Callable[..., _T], *args: Any) -> list[_T]:
        """Call ``function(shard, host, *args)`` at every shard host while nothing trains; return results by host.

        ``function`` is a plain function of an importable module, ``args`` and results are plain values: they may
        travel.
        """

    def close(self) -> None:
        """Give everything back; may be called twice."""


@runtime_checkable
class Scalable(Protocol):
    """An engine whose workers can leave while it trains."""

    def scale(self, wanted: Mapping[str, int]) -> None:
        """Ask workers to leave, so that so many of a role (``servers``, ``io``) stay."""


@runtime_checkable
class Watchable(Protocol):
    """An engine whose trainings others can watch."""

    def telling(self, about: Mapping[str, Any]) -> AbstractContextManager[Callable[[Progress], None]]:
        """Be a context in which a training goes on; what it yields tells others a report.

        ``about``: ``name``, ``about`` and ``picture`` of a :class:`~heterps.runtime.report.board.Notice`.
        """


@runtime_checkable
class PredictsThere(Protocol):
    """An engine whose workers can keep what they infer."""

    def infer_there(self, dataset: Dataset, source: str, shape: Callable[[Any, Any], Any]) -> list[Any]:
        """Run forward on every Split; return a future of ``shape(values, index)`` for each."""


Factory = Callable[[Job, Plan, Any, Mapping[str, Any]], Engine]


def _inline(job: Job, plan: Plan, client: Any, options: Mapping[str, Any]) -> Engine:
    from heterps.runtime.run.inline_engine import InlineEngine

    return InlineEngine(job, **options)


def _dask(job: Job, plan: Plan, client: Any, options: Mapping[str, Any]) -> Engine:
    from heterps.runtime.run.open import open_cluster

    return open_cluster(job, plan, client, **options)


ENGINES: dict[str, Factory] = {"dask": _dask, "inline": _inline}


def choose_engine(name: str, client: Any = None) -> str:
    """Return the engine that ``name`` means: ``auto`` is Dask, in this process where no cluster is at hand."""
    if name == "auto":
        name = "dask"
    if name not in ENGINES:
        raise UnknownKindError(f"there is no engine {name!r}; there are auto, {', '.join(sorted(ENGINES))}")
    return name


def runs_here(name: str, client: Any = None) -> bool:
    """Say whether an engine runs everything in this process."""
    if name != "dask":
        return name == "inline"
    from heterps.runtime.cluster.connect import is_at_hand

    return not is_at_hand(client)


def hardware_for(name: str, client: Any = None) -> Hardware:
    """Return what an engine would run on: the cluster at hand, asked now, else this machine."""
    if name == "dask" and not runs_here(name, client):
        from heterps.runtime.cluster.connect import connected
        from heterps.runtime.cluster.probe import discover

        with connected(client) as found:
            return discover(found)
    return Hardware.local()


def make_engine(name: str, job: Job, plan: Plan, client: Any = None, **options: Any) -> Engine:
    """Make an engine by the name that :func:`choose_engine` gave."""
    return ENGINES[name](job, plan, client, options)
