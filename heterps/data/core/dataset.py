"""Dataset: splits, seeded shuffling and batches, over whatever a reader can fill buffers from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from heterps.data.core.bad import BadInput, BadRows
from heterps.data.core.batch import Batch
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.fingerprint import columns_mark
from heterps.data.core.labels import Labels
from heterps.data.core.permutation import permutation, seed_key
from heterps.data.core.schema import Schema
from heterps.data.core.split import Piece, Split, deal, pack
from heterps.errors import DataError
from heterps.own_modules import home_of, is_own, sent_with_code
from heterps.protocol.words.keys import BatchKey

if TYPE_CHECKING:
    from heterps.data.core.persist import Persisted
    from heterps.data.study.infer_schema import Study

__all__ = ["Dataset", "Shuffle", "Source"]

PIECES_PER_SPLIT = 64
# Settings that are plain values but say nothing about rows, or are told by marks() instead.
_NOT_ROWS = (
    "split_cost",
    "timeout",
    "pipe_timeout",
    "owner",
    "memory_bytes",
    "folder",
    "images",
    "classes",
    "function",
    "guessed",
)


class Source(ABC):
    """The rows of one Split, in order, read once."""

    @abstractmethod
    def fill(self, rows: RowBuffers, begin: int, end: int) -> int:
        """Write the next rows into ``rows[begin:end]``; return how many (fewer only at the end)."""

    def skip(self, count: int, scratch: RowBuffers) -> None:
        """Pass over rows; readers that can seek do better than this."""
        while count > 0:
            got = self.fill(scratch, 0, min(count, scratch.capacity))
            if got == 0:
                return
            count -= got

    def close(self) -> None:
        """Release files and processes."""
        return None


@dataclass(frozen=True)
class Shuffle:
    """How rows are mixed: ``none``; ``local``, within windows of a Split; ``global``, across all Splits.

    Global: the data is cut into pieces (64 a Split), all pieces are permuted by (seed, pass) and dealt into new Splits,
    whose rows are then mixed in windows. Every row is read exactly once a pass, wherever it lies, with no exchange
    between workers.
    """

    scope: Literal["none", "local", "global"] = "none"
    window: int = 1 << 16

    def __post_init__(self) -> None:
        if self.scope not in ("none", "local", "global"):
            raise DataError(f"shuffle scope {self.scope!r} is none of none, local, global")
        if self.window < 1:
            raise DataError(f"the shuffle window must be at least one row, got {self.window}")


@dataclass(frozen=True, kw_only=True)
class Dataset(ABC):
    """Files (or arrays, programs, generators) as batches: a plain value that says where the rows are.

    Everything about a batch depends on the data, the batch size, the seed and the pass only: any worker, any
    attempt, and a read that starts in the middle give the same batches under the same keys.
    """

    shuffling: Shuffle = field(default_factory=Shuffle)
    bad_input: BadInput = field(default_factory=BadInput)
    labels: Labels = field(default_factory=Labels)
    split_cost: int = 32 << 20
    guessed: bool = False  # whether the schema was inferred: what a model remembers goes before it
    study: Study | None = field(default=None, repr=False, compare=False)  # of the source columns, where it was inferred

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Travel with the code of a reader, or of a function, that only this program has."""
        if not any(is_own(home_of(used)) for used in (type(self), *vars(self).values())):
            return super().__reduce_ex__(protocol)
        return sent_with_code(self, dict(self.__getstate__()))  # type: ignore[call-overload]

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The columns of a batch."""

    @abstractmethod
    def pieces(self, grain: int) -> tuple[Piece, ...]:
        """Cut the data into pieces of about ``grain`` (bytes, or what the reader counts in), from metadata only."""

    @abstractmethod
    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start reading pieces, in the given order."""

    def shuffle(self, scope: Literal["none", "local", "global"] = "local", window: int = 1 << 16) -> Self:
        """Return this dataset with shuffled rows; see :class:`Shuffle`."""
        return replace(self, shuffling=Shuffle(scope, window))

    def on_bad(self, action: Literal["skip", "error"] = "skip", limit: int = 1000) -> Self:
        """Return this dataset with another policy for bad rows; see :class:`BadInput`."""
        return replace(self, bad_input=BadInput(action, limit))

    def labels_within(self, bounds: Mapping[str, tuple[float, float]]) -> Self:
        """Return this dataset with labels by name, each within bounds; rows whose label is missing or not are bad."""
        return replace(self, labels=Labels.within(bounds))

    def without_labels(self) -> Self:
        """Return this dataset for use without labels: where one is missing it is NaN, and the row is as good."""
        return replace(self, labels=Labels(needed=False))

    def splits(self, pass_: int = 0, seed: int = 0) -> tuple[Split, ...]:
        """Return the Splits of a pass; ``splits[i].index == i``. Reads file sizes and footers, never rows."""
        if self.shuffling.scope == "global":
            groups = deal(self.pieces(max(1, self.split_cost // PIECES_PER_SPLIT)), self.split_cost, seed, pass_)
        else:
            groups = pack(self.pieces(self.split_cost), self.split_cost)
            if self.shuffling.scope == "local":
                groups = [groups[i] for i in permutation(len(groups), seed_key(seed, pass_))]
        if not groups:
            raise DataError(f"there are no rows to read in {self.origin}")
        return tuple(Split(pass_, index, group) for index, group in enumerate(groups))

    def read(
        self,
        split: Split,
        *,
        batch_size: int,
        seed: int = 0,
        start: int = 0,
        bad: BadRows | None = None,
        ring: int = 1,
    ) -> Iterator[Batch]:
        """Yield the batches of a Split from number ``start`` on.

        Parameters
        ----------
        split
            One of :meth:`splits`.
        batch_size
            Rows a batch; the last may be smaller.
        seed
            The seed given to :meth:`splits`.
        start
            The first batch wanted: earlier ones are passed over, later ones are the same as in a whole read.
        bad
            Where bad rows are counted; give one to see the count afterwards.
        ring
            Buffers used in turn: the columns of a batch stay valid until ``ring`` more batches were asked for.
        """
        if batch_size < 1:
            raise DataError(f"the batch size must be at least 1, got {batch_size}")
        account = BadRows(self.bad_input) if bad is None else bad
        with closing(self.open(split.pieces, account)) as source:
            buffers = [RowBuffers(self.schema, batch_size) for _ in range(ring)]
            if self.shuffling.scope == "none":
                yield from _in_order(source, split, buffers, start)
            else:
                yield from _mixed(source, split, buffers, start, seed, self.shuffling.window)

    def persist(self, memory_bytes: int = 4 << 30) -> Persisted:
        """Return this dataset parsed once per process and then read from memory; at most ``memory_bytes`` are kept."""
        from heterps.data.core.persist import Persisted

        return Persisted(
            of=self,
            memory_bytes=memory_bytes,
            shuffling=self.shuffling,
            bad_input=self.bad_input,
            labels=self.labels,
            split_cost=self.split_cost,
            guessed=self.guessed,
            study=self.study,
        )

    def spread(self, parts: int, batch_size: int) -> Self:
        """Return this dataset cut into about ``parts`` Splits or more, so that as many workers have something to read.

        Only data whose rows lie in memory is cut anew, at multiples of the batch size, and only if no ``split_cost``
        was given; files are cut by their size.
        """
        return self

    def fingerprint(self) -> dict[str, Any]:
        """Return what must stay the same for a run to go on later exactly; JSON-able."""
        return {
            "reader": type(self).__name__,
            "settings": {name: value for name, value in vars(self).items() if _tells(name, value)},
            "columns": columns_mark(self.schema),
            "shuffle": [self.shuffling.scope, self.shuffling.window],
            "split cost": self.split_cost,
            **self.marks(),
        }

    def marks(self) -> dict[str, Any]:
        """Return what tells the rows themselves from others; readers that know better than their pieces do better."""
        return {"pieces": [piece.to_json() for piece in self.pieces(self.split_cost)]}

    @property
    def source_names(self) -> tuple[str, ...] | None:
        """Names of the source columns that there are; None where that cannot be told."""
        return None

    @property
    def has_optional_sources(self) -> bool:
        """Whether rows need not have all source columns: one that :attr:`source_names` lacks is missing in a row."""
        return False

    @property
    def origin(self) -> str:
        """What messages call the data: its first file."""
        return self.files[0] if self.files else "the data"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that rows are read from; none where they come from elsewhere."""
        return tuple(map(str, vars(self).get("paths") or ()))

    def reading(self) -> dict[str, Any]:
        """Return what it takes besides a schema to read more such files, JSON-able; empty where that is nothing."""
        return {}

    def with_fields(self, fields: Schema) -> Self:
        """Return this dataset with other columns, made of the same source columns."""
        if "fields" not in vars(self):
            raise DataError(f"the columns of {type(self).__name__} are what they are: they are not made by recipes")
        changed: dict[str, Any] = {"fields": fields, "guessed": False}
        return replace(self, **changed)

    def cells(self, split: Split, names: Sequence[str]) -> Any:
        """Return source columns of a Split as an Arrow table: a row for each row of the input, bad ones too."""
        raise DataError(f"{type(self).__name__} keeps no source columns that could be fetched: {', '.join(names)}")

    def where(self, splits: Sequence[Split]) -> tuple[tuple[str, ...], ...]:
        """Return for each Split the addresses of workers that hold its rows already; empty where any worker will do."""
        return ()

    def held_rows(self, split: Split) -> Mapping[str, Any]:
        """Return what the reader of a Split must be handed, by name: futures of rows that lie on workers.

        They are arguments of the task that reads: Dask has them there, from another worker at need, before it begins.
        """
        return {}

    def given(self, rows: Mapping[str, Any]) -> Self:
        """Return this dataset with what :meth:`held_rows` stands for, for reading that Split."""
        return self


def _tells(name: str, value: Any) -> bool:
    """Settings of a reader that decide what rows are; paths are looked at by :meth:`Dataset.marks`."""
    return isinstance(value, str | bool | int | float) and name not in _NOT_ROWS


def _in_order(source: Source, split: Split, buffers: list[RowBuffers], start: int) -> Iterator[Batch]:
    size = buffers[0].capacity
    source.skip(start * size, buffers[0])
    n = start
    while True:
        rows = buffers[n % len(buffers)]
        got = source.fill(rows, 0, size)
        if got:
            yield Batch(BatchKey(split.pass_, split.index, n), got, rows.columns(got))
        if got < size:
            return
        n += 1


def _mixed(
    source: Source, split: Split, buffers: list[RowBuffers], start: int, seed: int, window: int
) -> Iterator[Batch]:
    """Fill a window, permute it, cut it into batches. A window is whole batches, so ``start`` skips whole windows."""
    size = buffers[0].capacity
    per_window = max(1, window // size)
    pool = RowBuffers(buffers[0].schema, per_window * size)
    first = start // per_window
    source.skip(first * pool.capacity, pool)
    n = first * per_window
    while True:
        got = source.fill(pool, 0, pool.capacity)
        order = permutation(got, seed_key(seed, split.pass_, split.index, n))
        for at in range(0, got, size):
            if n >= start:
                rows, part = buffers[n % len(buffers)], order[at : at + size]
                pool.take(part, rows)
                yield Batch(BatchKey(split.pass_, split.index, n), len(part), rows.columns(len(part)))
            n += 1
        if got < pool.capacity:
            return
