"""A dask.dataframe as a dataset: its partitions stay on the workers that hold them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa
from distributed import Client, Future, KilledWorker, default_client, wait

from heterps.data import Dataset, Piece, Schema, Source, Split
from heterps.data.columnar.parquet_files import schema_of_arrow
from heterps.data.columnar.record_batches import CHUNK_ROWS, ColumnarPart, ColumnarSource
from heterps.data.core.bad import BadRows
from heterps.errors import ClusterError, DataError, HeterpsError
from heterps.runtime.answers import answer, sending
from heterps.runtime.cluster.identity import identity_of
from heterps.runtime.cluster.pools import pools_of
from heterps.runtime.cluster.resources import IO
from heterps.runtime.config import settings

__all__ = ["DaskFrame", "current_client", "dask_frame", "types_of"]


@dataclass(frozen=True, kw_only=True)
class DaskFrame(Dataset):
    """Partitions computed and kept on the cluster; use :func:`dask_frame` to make one.

    A Split is one partition (or several small ones), read by a worker that holds it. The value that travels to workers
    has keys only: the futures that keep the partitions alive stay with the driver, and are arguments of the tasks that
    read them.
    """

    keys: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    fields: Schema = field(default_factory=Schema)
    held: tuple[Future, ...] = field(default=(), repr=False, compare=False)
    rows: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"held": (), "rows": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    @property
    def schema(self) -> Schema:
        """The columns of a batch."""
        return self.fields

    @property
    def source_names(self) -> tuple[str, ...]:
        """The columns of the partitions."""
        return self.columns

    def cells(self, split: Split, names: Sequence[str]) -> Any:
        """Return source columns of a Split, with a row for each of its rows."""
        return pa.concat_tables(
            [self._table(piece.source, names) for piece in split.pieces], promote_options="permissive"
        )

    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Return one piece a partition."""
        return tuple(Piece(key, 0, -1, max(1, size)) for key, size in zip(self.keys, self.sizes, strict=True))

    def marks(self) -> dict[str, Any]:
        """Return the sizes of partitions; their keys are new each time."""
        return {"partition bytes": list(self.sizes)}

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start reading partitions."""
        return ColumnarSource(self.fields, self._parts(pieces), bad, self.labels)

    def where(self, splits: Sequence[Split]) -> tuple[tuple[str, ...], ...]:
        """Return for each Split the workers that hold all its partitions, or else any of them."""
        if not self.held:
            return ()
        client = self.held[0].client
        found = answer(client, lambda: client.who_has(list(self.held)), _lost, settings().call_s)
        return tuple(_holders([set(found.get(piece.source, ())) for piece in split.pieces]) for split in splits)

    def held_rows(self, split: Split) -> Mapping[str, Any]:
        """Return the futures of a Split's partitions; in a process that has none, nothing."""
        by_key = {str(future.key): future for future in self.held}
        return {piece.source: by_key[piece.source] for piece in split.pieces if piece.source in by_key}

    def given(self, rows: Mapping[str, Any]) -> Self:
        """Return this dataset with partitions at hand."""
        return replace(self, rows=rows) if rows else self

    def _parts(self, pieces: tuple[Piece, ...]) -> Iterator[ColumnarPart]:
        for piece in pieces:
            row = 0
            table = self._table(piece.source, self.fields.sources)
            for batch in table.combine_chunks().to_batches(max_chunksize=CHUNK_ROWS):
                yield ColumnarPart(piece.source, row, batch)
                row += batch.num_rows

    def _table(self, key: str, names: Sequence[str]) -> Any:
        partition = self.rows[key] if key in self.rows else self._fetched(key)
        wanted = list(names)
        if any(name not in partition.columns for name in wanted):
            partition = partition.reset_index()
        try:
            return pa.Table.from_pandas(partition[wanted], preserve_index=False)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(f"partition {self.keys.index(key)} of the frame has mixed values: {error}") from error

    def _fetched(self, key: str) -> Any:
        """Bring a partition to the process that reads without being a worker."""
        future = next((future for future in self.held if future.key == key), None)
        if future is None:
            raise DataError(f"partition {key} is not here: keep, and read, the dataset where dask_frame made it")

        async def ask() -> Any:
            return await future

        return answer(future.client, ask, _lost, settings().call_s)


def _holders(of_pieces: Sequence[set[str]]) -> tuple[str, ...]:
    everywhere = set.intersection(*of_pieces)
    return tuple(sorted(everywhere or set.union(*of_pieces)))


def dask_frame(
    frame: Any,
    fields: Schema | None = None,
    *,
    label: str = "",
    client: Client | None = None,
    pool: str = IO,
    **options: Any,
) -> DaskFrame:
    """Make a dataset of a dask.dataframe.

    Parameters
    ----------
    frame
        ``dask.dataframe.DataFrame``; it is computed onto the workers that will read it and kept there as long as the
        dataset. What they have already stays where it is.
    fields, label
        As for :func:`~heterps.data.columnar.parquet_files.parquet`. Categories are told by their values, whatever codes
        a partition has for them. The index is no column unless ``fields`` names it.
    client
        The cluster; by default the current one.
    pool
        Whose workers read; where the cluster has no such pool, all may hold partitions.
    **options
        Fields of :class:`~heterps.data.core.dataset.Dataset`.
    """
    if not hasattr(frame, "to_delayed") or not hasattr(frame, "columns"):
        raise DataError(f"dask_frame takes a dask.dataframe.DataFrame, not a {type(frame).__name__}")
    cluster = client or current_client()
    schema = schema_of_arrow(types_of(frame._meta), label) if fields is None else fields
    names = [str(name) for name in frame.columns]
    missing = [name for name in schema.sources if name not in names and name != frame.index.name]
    if missing:
        raise DataError(f"the frame has no column {missing[0]!r}; it has {', '.join(names)}")
    kept = names if fields is None else [name for name in schema.sources if name in names]
    chosen = frame[kept].to_delayed()
    options = {"guessed": fields is None, "columns": (*kept, *filter(None, [frame.index.name]))} | options
    # Splits name partitions in JSON, so each gets a key that is a string; the object itself stays where it is.
    name = f"heterps-frame-{uuid.uuid4().hex}"
    readers = [address for found in pools_of(cluster) if found.name == pool for address in found.addresses]
    where: dict[str, Any] = {"workers": readers, "allow_other_workers": True} if readers else {}
    with sending("the frame", _lost):
        parts = cluster.compute(chosen, **where)
        futures = [cluster.submit(_same, part, key=f"{name}-{i}", pure=False, **where) for i, part in enumerate(parts)]
    return _held(cluster, tuple(futures), schema, options)


def types_of(meta: Any) -> Any:
    """Return the types of an empty frame's columns; objects are text as long as no row says otherwise."""
    found = pa.Schema.from_pandas(meta, preserve_index=False)
    return pa.schema([pa.field(f.name, pa.string()) if pa.types.is_null(f.type) else f for f in found])


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


def current_client() -> Client:
    """Return the client that is current."""
    try:
        return default_client()
    except ValueError:
        raise ClusterError("a dask.dataframe needs a cluster: create a distributed.Client first") from None
