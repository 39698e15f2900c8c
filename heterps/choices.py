"""What a user's words mean: the job that a plan and the arguments of ``launch`` describe, metrics, what is fetched."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heterps.data import Schema
from heterps.errors import DataError, GraphError, PlanError, RunError
from heterps.graph import Graph
from heterps.hardware import Hardware
from heterps.metrics import Metric, OfTask, metric
from heterps.planner.plan import Plan
from heterps.planner.planner import plan as make_plan
from heterps.planner.tiers import with_storage as stored
from heterps.planner.ways import CACHE, cache_ways, parse_way, resolve_ways
from heterps.protocol.words.modes import Async, Cached, Mode, mode_from_json, mode_from_text
from heterps.runtime.batch.clipping import Clip
from heterps.runtime.batch.devices import AUTO, DeviceWish
from heterps.runtime.batch.inference import PREDICTION, sources_of
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.config import bytes_of
from heterps.tables import Adam, ElementAdaGrad, Rule

__all__ = [
    "CacheRows",
    "Fetch",
    "Metrics",
    "cached_mode",
    "check_options",
    "chosen_mode",
    "evaluation_metrics",
    "job_of",
    "named",
    "plan_of",
    "watched_tensors",
    "with_cache",
    "with_replicas",
    "with_storage",
]

_log = logging.getLogger("heterps")

Metrics = Sequence[str | Metric]
Fetch = str | Sequence[str] | Mapping[str, str]
CacheRows = int | str | Mapping[str, int | str]

_TRAINING_METRICS: Mapping[str, tuple[str, ...]] = {
    "logloss": ("auc",),
    "multi_logloss": ("auc",),
    "softmax_cross_entropy": ("acc1",),
}
_ENGINE_OPTIONS: Mapping[str, tuple[str, ...]] = {"inline": ("report_s", "threads"), "dask": ("report_s",)}
_EVALUATION_METRICS: Mapping[str, tuple[str, ...]] = {
    "logloss": ("auc", "logloss"),
    "multi_logloss": ("auc", "logloss"),
    "mse": ("rmse", "mae"),
    "softmax_cross_entropy": ("acc1", "acc5"),
}


_BATCH = 1024


def plan_of(given: Plan | Graph, batch_size: int | None, hardware: Callable[[], Hardware]) -> Plan:
    """Return the plan that was given, or one made for a graph and the hardware that is asked for then."""
    if isinstance(given, Graph):
        return make_plan(given, hardware(), batch_size=batch_size or _BATCH)
    if not isinstance(given, Plan):
        raise PlanError(f"launch takes a Plan or a Graph, not {type(given).__name__}")
    if batch_size not in (None, given.batch_size):
        raise PlanError(f"the plan has batches of {given.batch_size}: plan again for {batch_size}, or launch the graph")
    return given


def check_options(options: Mapping[str, Any], engine: str, arguments: Collection[str]) -> None:
    """Refuse options that no argument of ``launch`` and no option of the engine is called; name what is meant."""
    if engine not in _ENGINE_OPTIONS:  # one of somebody else's knows its own
        return
    known = {*arguments, *_ENGINE_OPTIONS[engine]} - {"options"}
    for name in options:
        if name not in known:
            other = next((each for each, its in _ENGINE_OPTIONS.items() if name in its), "")
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"it is one of engine={other!r}" if other else f"did you mean {near[0]!r}?" if near else ""
            raise RunError(f"launch has no option {name!r}; {hint or 'there are ' + ', '.join(sorted(known))}")


def job_of(
    plan: Plan,
    mode: Mode,
    *,
    sparse: Rule | None,
    dense: Rule | None,
    seed: int,
    metrics: Metrics | None,
    memory: int | str | None,
    device: str,
    emulate: bool,
    dense_on: str,
    parameters: Mapping[str, str],
    local_rows: int | None = None,
    clip: Clip | None = None,
    wire: str = "float32",
    cache_on: str = AUTO,
) -> Job:
    """Return what a plan and the arguments of :func:`~heterps.launching.launch` ask to run."""
    summed = plan.lanes if mode.ordered else 1 if mode.has_copy else mode.unit
    model = Model(plan.graph, sparse or ElementAdaGrad(lr=0.01), dense or Adam(lr=0.001), seed, summed)
    holder = _has_holder(plan, dense_on, model)
    return Job(
        model,
        plan.batch_size,
        mode,
        hosts=plan.shard_hosts + holder,
        holder=holder,
        lanes=plan.lanes,
        metrics=_metrics(plan.graph, metrics, _TRAINING_METRICS),
        stages=() if plan.is_fused else tuple(stage.ops for stage in plan.stages),
        memory_bytes=bytes_of(memory),
        replicas=plan.replicas,
        ways=resolve_ways(plan.graph, parameters),
        devices=DeviceWish(device, emulate).on((s.pool, plan.pool(s.pool).kind == "gpu") for s in plan.stages),
        local_rows=local_rows,
        clip=clip or Clip(),
        wire=wire,
        cache_on=cache_on,
    )


def _has_holder(plan: Plan, dense_on: str, model: Model) -> bool:
    """Whether a compute stage holds the dense parameters, and the tables that are to be on its GPU."""
    if dense_on not in ("hosts", "stage"):
        raise PlanError(f"dense_on={dense_on!r}; dense parameters are on the shard 'hosts' or with the first 'stage'")
    if dense_on == "stage" and plan.is_fused:
        raise PlanError("dense_on='stage': this plan computes where the data is read; give it a stage on other workers")
    on_gpu = [table.name for group in model.groups if group.on_gpu for table in group.tables]
    if on_gpu and plan.is_fused:
        _log.info("table %r stays in memory: this plan computes where the data is read, not on a GPU worker", on_gpu[0])
    return dense_on == "stage" or (bool(on_gpu) and not plan.is_fused)


def with_storage(plan: Plan, storage: Mapping[str, str] | None) -> Plan:
    """Return the plan with rows of tables kept where a user says, else where its graph does."""
    return replace(plan, graph=stored(plan.graph, storage)) if storage else plan


def with_replicas(plan: Plan, given: int | None, engine: str) -> Plan:
    """Return the plan with as many copies of shard hosts as a user says, else as it has."""
    plan = plan if given is None else replace(plan, replicas=given)
    if plan.replicas > 1 and engine == "inline":
        raise PlanError(f"replicas={plan.replicas}, but inline one process holds all tables: use engine='dask'")
    return plan


def with_cache(plan: Plan, cache_rows: CacheRows | None, parameters: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return how parameters travel, as a user says, else the plan; tables that a cache is asked for through one."""
    ways = plan.parameters if parameters is None else parameters
    return ways if cache_rows is None else {**ways, **cache_ways(plan.graph, cache_rows)}


def cached_mode(mode: Mode, staleness: int | None, parameters: Mapping[str, str]) -> Mode:
    """Return the mode in which tables can have a cache, if any has one: that takes the place of Async."""
    has_cache = any(parse_way(way).kind == CACHE for way in parameters.values())
    if not has_cache and (staleness is not None or isinstance(mode, Cached)):
        said = f"mode {mode.name!r}" if staleness is None else f"staleness={staleness}"
        raise PlanError(f"{said}, but no table has a cache: say how many rows workers keep (cache_rows=, --cache-rows)")
    if not has_cache or not isinstance(mode, Async | Cached):
        return mode  # the job refuses a cache in another one
    if isinstance(mode, Async) and mode.merge > 1:
        raise PlanError(f"Async(merge={mode.merge}) with a cache: that gathers gradients itself, as staleness= says")
    if staleness is not None:
        return Cached(staleness)
    return mode if isinstance(mode, Cached) else Cached()


def chosen_mode(given: str | Mapping[str, Any] | Mode | None, plan: Plan, engine: str) -> Mode:
    """Turn what a user says, else the plan, into a mode.

    A depth is for overlapping: where nothing overlaps, the plan's would only make batches stale.
    """
    if isinstance(given, Mode):
        return given
    if given is not None and given != Async.name:
        return mode_from_json(given) if isinstance(given, Mapping) else mode_from_text(given)
    mode = plan.mode if given is None else Async(depth=plan.depth)
    return replace(mode, depth=1) if engine == "inline" and isinstance(mode, Async) else mode


def _metrics(graph: Graph, given: Metrics | None, by_loss: Mapping[str, tuple[str, ...]]) -> tuple[Metric, ...]:
    if given is None:
        given = by_loss.get(graph[graph.loss].kind, ())
    chosen = tuple(metric(one) for one in ([given] if isinstance(given, str) else given))
    tasks = _tasks(graph)
    return tuple(OfTask(one, task) for one in chosen for task in range(tasks)) if tasks else chosen


def _tasks(graph: Graph) -> int:
    """Return how many tasks a model predicts at once; 0 for one that has no tasks."""
    loss = graph[graph.loss]
    return int(graph[loss.inputs[0]].type.shape[-1]) if loss.kind == "multi_logloss" else 0


def evaluation_metrics(graph: Graph, given: Metrics | None) -> tuple[Metric, ...]:
    """Return what is measured of predictions on data with labels."""
    chosen = _metrics(graph, given, _EVALUATION_METRICS)
    if not chosen:
        raise DataError(f"no metrics: name some for a {graph[graph.loss].kind} loss")
    return chosen


def named(fetch: Fetch) -> dict[str, str]:
    """Return what is fetched by the names it is given."""
    if isinstance(fetch, str):
        return {fetch: fetch}
    return dict(fetch) if isinstance(fetch, Mapping) else {name: name for name in fetch}


def watched_tensors(graph: Graph, fetch: Fetch | None) -> dict[str, str]:
    """Return the op behind each name whose values are wanted while training."""
    given = named(fetch or ())
    for name, op in given.items():
        if graph.outputs.get(op, op) != PREDICTION and graph[graph.outputs.get(op, op)].kind == "input":
            raise GraphError(f"cannot fetch {name!r} while training: {op!r} is a column of the data")
    return {name: sources_of(graph, Schema(), [op])[op] for name, op in given.items()}
