"""A dask.dataframe as a dataset: its partitions stay on the workers that hold them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from distributed import Client, Future, KilledWorker, default_client, get_worker, wait

from heterps.data import Dataset, Piece, Schema, Source, Split
from heterps.data.columnar.parquet_files import schema_of_arrow
from heterps.data.columnar.record_batches import CHUNK_ROWS, ColumnarPart, ColumnarSource
from heterps.data.core.bad import BadRows
from heterps.errors import ClusterError, DataError, HeterpsError
from heterps.runtime.answers import answer, sending
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.config import settings

__all__ = ["DaskFrame", "dask_frame"]


@dataclass(frozen=True, kw_only=True)
class DaskFrame(Dataset):
    """Partitions computed and kept on the cluster; use :func:`dask_frame` to make one.

    A Split is one partition (or several small ones); :meth:`where` names the workers that hold it. The value that
    travels to workers holds keys only; the futures that keep the partitions alive stay with the driver.
    """

    keys: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    fields: Schema = field(default_factory=Schema)
    held: tuple[Future, ...] = field(default=(), repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"held": ()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    @property
    def schema(self) -> Schema:
        """The columns of a batch."""
        return self.fields

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Return one piece a partition."""
        return tuple(Piece(key, 0, -1, max(1, size)) for key, size in zip(self.keys, self.sizes, strict=True))

    def marks(self) -> dict[str, Any]:
        """Return the sizes of partitions; their keys are new each time."""
        return {"partition bytes": list(self.sizes)}

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start reading partitions, from this worker's memory where they are."""
        return ColumnarSource(self.fields, _parts(pieces, self.fields), bad, self.labels)

    def where(self, split: Split) -> tuple[str, ...]:
        """Return the workers that hold all partitions of a Split, or else any of them."""
        by_key = {future.key: future for future in self.held}
        futures = [by_key[piece.source] for piece in split.pieces if piece.source in by_key]
        if not futures:
            return ()
        client = futures[0].client
        found = answer(client, lambda: client.who_has(futures), _lost, settings().call_s)
        holders = [set(workers) for workers in found.values()]
        everywhere = set.intersection(*holders)
        return tuple(sorted(everywhere or set.union(*holders)))


def dask_frame(
    frame: Any, fields: Schema | None = None, *, label: str = "", client: Client | None = None, **options: Any
) -> DaskFrame:
    """Make a dataset of a dask.dataframe.

    Parameters
    ----------
    frame
        ``dask.dataframe.DataFrame``; it is computed onto the cluster's workers and kept there as long as the dataset.
    fields, label
        As for :func:`~heterps.data.columnar.parquet_files.parquet`.
    client
        The cluster; by default the current one.
    **options
        Fields of :class:`~heterps.data.core.dataset.Dataset`.
    """
    cluster = client or _current_client()
    schema = (
        schema_of_arrow(pa.Schema.from_pandas(frame._meta, preserve_index=False), label) if fields is None else fields
    )
    names = [str(name) for name in frame.columns]
    missing = [name for name in schema.sources if name not in names]
    if missing:
        raise DataError(f"the frame has no column {missing[0]!r}; it has {', '.join(names)}")
    chosen = frame[list(schema.sources)].to_delayed()
    # Splits name partitions in JSON, so each gets a key that is a string; the object itself stays where it is.
    name = f"heterps-frame-{uuid.uuid4().hex}"
    with sending("the frame", _lost):
        parts = cluster.compute(chosen)
        futures = [cluster.submit(_same, part, key=f"{name}-{i}", pure=False) for i, part in enumerate(parts)]
    return _held(cluster, tuple(futures), schema, options)


def _same(partition: Any) -> Any:
    return partition


def _held(client: Client, futures: tuple[Future, ...], schema: Schema, options: dict[str, Any]) -> DaskFrame:
    async def ask() -> Any:
        await wait(futures)
        for future in futures:
            if future.status == "error":
                raise _broken(await future.exception())
        return await client.nbytes(keys=[future.key for future in futures], summary=False)

    sizes = answer(client, ask, _lost, settings().call_s, seen=lambda: _last_seen(client), patient=True)
    keys = tuple(str(future.key) for future in futures)
    return DaskFrame(keys=keys, sizes=tuple(int(sizes[key]) for key in keys), fields=schema, held=futures, **options)


def _broken(error: BaseException) -> HeterpsError:
    if isinstance(error, KilledWorker):
        return _lost(str(error))
    return DataError(f"a partition of the frame cannot be computed: {error!r}")


def _lost(reason: str) -> ClusterError:
    return ClusterError(f"the cluster did not answer about the partitions of a frame: {reason}")


def _last_seen(client: Client) -> float:
    """Return when any worker was last heard of."""
    return max((float(worker["last_seen"]) for worker in identity_of(client)["workers"].values()), default=0.0)


def _current_client() -> Client:
    try:
        return default_client()
    except ValueError:
        raise ClusterError("a dask.dataframe needs a cluster: create a distributed.Client first") from None


def _parts(pieces: tuple[Piece, ...], fields: Schema) -> Iterator[ColumnarPart]:
    for piece in pieces:
        table = pa.Table.from_pandas(_partition(piece.source), preserve_index=False).select(list(fields.sources))
        row = 0
        for batch in table.combine_chunks().to_batches(max_chunksize=CHUNK_ROWS):
            yield ColumnarPart(piece.source, row, batch)
            row += batch.num_rows


def _partition(key: str) -> Any:
    """Take a partition from this worker's memory; fetch it from another one only if it is not there."""
    try:
        worker = get_worker()
    except ValueError:
        return _fetched(_current_client(), key)
    if key in worker.data:
        return worker.data[key]
    return _fetched(worker._get_client(), key)


def _fetched(client: Client, key: str) -> Any:
    future = Future(key, client=client)
    if future.status == "lost":
        raise DataError(f"partition {key} is no longer on the cluster: keep the dataset that holds it")

    async def ask() -> Any:
        return await future

    return answer(client, ask, _lost, settings().call_s)
