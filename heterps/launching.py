"""The user's entry: ``with launch(plan) as session: ...``."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from heterps.choices import (
    CacheRows,
    Metrics,
    cached_mode,
    check_options,
    chosen_mode,
    job_of,
    plan_of,
    with_cache,
    with_replicas,
    with_storage,
)
from heterps.data.core.data_form import DataForm
from heterps.errors import CheckpointError
from heterps.graph import Graph
from heterps.keeping import keeping
from heterps.planner.plan import Plan
from heterps.planner.ways import mixed_mode
from heterps.protocol.words.modes import Async, Cached, Mixed, MixedSync, Mode, Sync, mode_from_json
from heterps.runtime.ahead import compile_ahead
from heterps.runtime.batch.clipping import Clip
from heterps.runtime.cuts.checkpoints import Checkpoints
from heterps.runtime.cuts.saved_model import SavedModel, begun
from heterps.runtime.run.engines import choose_engine, hardware_for, make_engine, runs_here
from heterps.session import Session
from heterps.tables import Rule

__all__ = ["launch", "load"]


@keeping()
def launch(
    plan: Plan | Graph,
    client: Any = None,
    *,
    batch_size: int | None = None,
    engine: str = "auto",
    mode: str | Mapping[str, Any] | Mode | None = None,
    sparse: Rule | None = None,
    dense: Rule | None = None,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    seed: int = 0,
    metrics: Metrics | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every_batches: int | None = None,
    every_s: float | None = None,
    resume: str | os.PathLike[str] | None = None,
    force: bool = False,
    memory: int | str | None = None,
    replicas: int | None = None,
    device: str = "auto",
    emulate: bool = False,
    dense_on: str = "hosts",
    storage: Mapping[str, str] | None = None,
    local_rows: int | None = None,
    parameters: Mapping[str, str] | None = None,
    cache_rows: CacheRows | None = None,
    staleness: int | None = None,
    wire: str = "float32",
    cache_on: str = "auto",
    name: str | None = None,
    **options: Any,
) -> Session:
    """Start what a plan needs and return a session that trains on it; use it in a ``with`` statement.

    Parameters
    ----------
    plan
        What runs where: made by the planner, or by hand with ``Plan.fused(graph, batch_size=...)``. A graph is planned
        for the cluster that it will run on, or for this machine.
    batch_size
        Rows of a batch, for a graph: 1024 by default. A plan has its own.
    client
        A Dask client; by default the process's default client, else the cluster that Dask's config names, else an
        in-process cluster with the workers that the plan asks for.
    engine
        ``"auto"`` or ``"dask"``; ``"inline"`` runs everything in the calling thread, without Dask.
    mode
        ``"sync"``, ``"async"``, ``"async:2:8"`` (two pushes of eight batches each under way), ``"geo:100"``, or a mode
        value such as ``Async(depth=4)``; by default the plan's.
    sparse, dense
        Rules of tables and of dense parameters where the graph names none; by default ``ElementAdaGrad(lr=0.01)``,
        whose steps do not depend on the scale of the loss, and ``Adam(lr=0.001)``.
    clip_norm, clip_value
        Largest norm of a dense parameter's gradient and of a row's, largest absolute value of an element; each batch's
        (in Sync: each lane's) gradients are clipped before they are pushed.
    seed
        First values of rows and parameters, shuffling and dropout all follow from it.
    metrics
        Measured while training, on predictions made before each batch was trained on. By default AUC for a logloss.
    checkpoint
        Folder for cuts: if a shard host is lost the run returns to the last one by itself; if everything is lost,
        another run goes on from it.
    every_batches, every_s
        How often to make a cut; one is made at the end of training in any case.
    resume
        Folder of an earlier run's cuts: the first training goes on from the newest, exactly. Give the same data, mode,
        batch size, rules, metrics and epochs; the number of workers and shard hosts may differ.
    force
        Resume although data, shuffling, rules or metrics differ from those of the earlier run, which is refused
        otherwise with what differs.
    memory
        What the tables of one shard host may take, in bytes or as ``"8GiB"``: new ids beyond that are refused by name.
        By default 70 % of the limit of its worker, less what that takes already; no limit within one process.
    replicas
        Copies of each shard host, by default as the plan says. With 2 every host has a backup on another worker, on
        another machine where there is one: a host that is lost while training costs nothing. It takes twice the memory.
    device
        What stages compute on: ``"auto"`` (a GPU in the plan's GPU pools, the CPU elsewhere), ``"cpu"``, ``"gpu:0"``,
        or the name of a registered device. Where the plan has GPU pools the name is for their stages, else for all.
    emulate
        Let NumPy stand in on workers of a GPU pool that cannot use their GPU; without it they are refused, with the
        reason. Every report then says "emulated".
    dense_on
        Where dense parameters and their optimiser's slots are: on the shard ``"hosts"``, or with the first compute
        ``"stage"``, on the device that it computes on: nothing dense then crosses between that worker and others, and
        a run that loses the worker returns to its last cut.
    storage
        Where rows of tables are, by table name or pattern: ``{"deep": "gpu", "*": "ssd"}``; by default as the graph
        says. ``"gpu"``: trained in the memory of the first compute stage's device, as dense parameters are then, and
        all of them in the memory of its worker below; ``"gpu+ssd"``: on its disk.
    local_rows
        Geo: rows of each table that a worker keeps for itself from one range of batches to the next, the least recent
        go; by default all it has met.
    parameters
        How parameters travel, by name or pattern: ``{"fc*": "allreduce", "*": "table"}``; by default as the plan says,
        else through their tables.
    cache_rows
        Embedding cache: rows of each table that a worker keeps (``50_000``), or bytes of them (``"64MB"``), or either
        by name or pattern of tables (``{"deep": 50_000}``). It takes the place of Async.
    staleness
        With a cache: how many batches of its own worker a batch's rows may lack, by default 16.
    wire
        How rows, parameters and gradients travel between processes: ``"float32"``, or ``"float16"`` for half the bytes,
        each number rounded to eleven bits; in Async. Within a process nothing travels, and nothing is rounded.
    cache_on
        Where its rows are: ``"device"``, in the memory of the device that computes, or ``"memory"``; by default on the
        device wherever a plan of one stage computes on one. Refused where they do not fit, with the rows that would.
    name
        What ``heterps watch`` and the page ``/heterps`` of the scheduler call its trainings; by default the script's.
    **options
        For the engine: ``report_s`` seconds between reports (1.0). Inline: ``threads`` of a BLAS call (1).

    Examples
    --------
    >>> with launch(Plan.fused(wide_deep(), batch_size=1024)) as session:  # doctest: +SKIP
    ...     for progress in session.train(Criteo("train.tsv"), epochs=1):
    ...         print(progress)
    ...     print(session.evaluate(Criteo("valid.tsv")))
    """
    chosen = choose_engine(engine, client)
    plan = plan_of(plan, batch_size, lambda: hardware_for(chosen, client))
    check_options(options, chosen, inspect.signature(launch).parameters)
    plan = with_storage(with_replicas(plan, replicas, chosen), storage)
    ways = with_cache(plan, cache_rows, parameters)
    job = job_of(
        plan,
        mixed_mode(cached_mode(chosen_mode(mode, plan, chosen), staleness, ways), ways),
        sparse=sparse,
        dense=dense,
        seed=seed,
        metrics=metrics,
        memory=memory,
        device=device,
        emulate=emulate,
        dense_on=dense_on,
        parameters=ways,
        local_rows=local_rows,
        clip=Clip(clip_norm, clip_value),
        wire=wire,
        cache_on=cache_on,
    )
    if runs_here(chosen, client):
        compile_ahead(job.needs)
    checkpoints = Checkpoints(
        os.fspath(checkpoint) if checkpoint else None,
        every_batches,
        every_s,
        os.fspath(resume) if resume else None,
        force,
    )
    form = _remembered(resume) if resume else None  # before its folder is begun anew
    with ExitStack() as stack:
        lock = stack.enter_context(begun(job, Path(checkpoint), form)) if checkpoint else None
        made = make_engine(chosen, job, plan, client, checkpoints=checkpoints, **options)
        session = Session(plan, made, lock, form, name)
        stack.pop_all()  # from here on the session holds the lock
    return session


def _remembered(resume: str | os.PathLike[str]) -> DataForm | None:
    """Return what the model of an earlier run knows of its data."""
    try:
        return SavedModel.read(Path(resume)).form
    except CheckpointError:  # cuts without a description: the run itself says what is wrong with them
        return None


def _of_hosts(mode: Mode) -> Mode:
    """Return the mode that keeps the same order, without what workers keep."""
    return Sync() if isinstance(mode, MixedSync) else Async() if isinstance(mode, Cached | Mixed) else mode


def load(path: str | os.PathLike[str], client: Any = None, *, plan: Plan | None = None, **options: Any) -> Session:
    """Launch a model that :meth:`Session.save` wrote, with its tables as they were.

    Parameters
    ----------
    path
        The folder.
    client
        A Dask client.
    plan
        Another plan for the same graph; by default everything runs in one stage.
    **options
        As for :func:`launch`: ``engine``, ``mode``, ``metrics``, ...
    """
    saved = SavedModel.read(Path(path))
    if plan is None:
        mode = mode_from_json(saved.mode)
        mode = _of_hosts(mode)  # what workers keep is for this run to say
        plan = Plan.fused(saved.graph, batch_size=saved.batch_size, mode=mode)
    options = {"sparse": saved.sparse, "dense": saved.dense, "seed": saved.seed, **options}
    session = launch(plan, client, **options)
    session.form = saved.form
    try:
        session.load(path)
    except BaseException:
        session.close()
        raise
    return session
