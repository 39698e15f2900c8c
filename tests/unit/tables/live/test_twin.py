"""A shard that takes in what another one reads out, while that goes on, becomes equal to it in all of a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from heterps.errors import TableError
from heterps.protocol import BatchKey
from heterps.tables import (
    CountEntry,
    CtrAccessor,
    ElementAdaGrad,
    GroupSpec,
    KeyedShard,
    Momentum,
    RowGradients,
    TableSpec,
    Uniform,
)
from heterps.tables.live.twin import RowsOut, SomeRows, take_rows

N_SHARDS = 8
GROUPS = (
    GroupSpec("a", (TableSpec("a", 3, ElementAdaGrad(), Uniform(0.1)),), N_SHARDS),
    GroupSpec("b", (TableSpec("b", 2, Momentum(0.1), Uniform(0.1), accessor=CtrAccessor(embed=1)),), N_SHARDS),
    GroupSpec("c", (TableSpec("c", 2, ElementAdaGrad(), Uniform(0.1), entry=CountEntry(3)),), N_SHARDS),
    GroupSpec("d", (TableSpec("d", 3, ElementAdaGrad(), Uniform(0.1), dtype="float16"),), N_SHARDS),
)


def new_shard(owned: Sequence[int] | None = None, threads: int = 1) -> KeyedShard:
    return KeyedShard(GROUPS, owned=owned, threads=threads)


def push(shard: KeyedShard, n: int, ids: Sequence[int]) -> None:
    rng = np.random.default_rng(n)
    found = np.array(sorted(set(ids)), np.uint64)
    ones = np.ones(len(found), np.float32)
    grads = {
        group.name: RowGradients(
            found, rng.normal(size=(len(found), group.width)).astype(np.float32), show=ones, click=ones * (n % 2)
        )
        for group in GROUPS
    }
    shard.push(BatchKey(0, 0, n), grads)


def held(shard: KeyedShard) -> dict[str, dict[int, bytes]]:
    """Return every row of every group by id, as bytes; also what waits for a row."""
    found = {}
    for group in shard.groups.values():
        for each in filter(None, (group, group.waiting)):
            rows = each.changed("test").rows
            each.readers.forget("test")
            columns = [np.ascontiguousarray(array.reshape(len(array), -1)) for array in rows.values()]
            found[each.spec.name] = {
                int(id_): b"".join(c[i].tobytes() for c in columns) for i, id_ in enumerate(rows["id"])
            }
    return found


def take_all(out: RowsOut, twin: KeyedShard, rows: int = 7) -> int:
    pieces = list(out.read(rows))
    for some in pieces:
        assert len(some.rows["id"]) <= rows
        take_rows(twin, some)
    return sum(len(some.rows["id"]) for some in pieces)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_twin_that_follows_is_equal_whatever_happens_meanwhile(threads: int) -> None:
    rng = np.random.default_rng(4)
    shard, twin = new_shard(threads=threads), new_shard()
    out = RowsOut(shard, "twin")
    for n in range(30):
        push(shard, n, rng.integers(0, 60, 20).tolist())
        if n % 7 == 3:
            shard.groups["a"].delete(rng.integers(0, 60, 5).astype(np.uint64))
        if n % 11 == 5:
            shard.shrink()
        if n % 5 == 0:
            take_all(out, twin)
            assert held(twin) == held(shard)
    last = take_all(out, twin)
    assert 0 < last < sum(map(len, held(shard).values())), "what did not change is not sent again"
    assert held(twin) == held(shard)
    push(shard, 30, range(60))
    push(twin, 30, range(60))
    assert held(twin) == held(shard), "they go on alike"


def test_rows_that_change_while_they_are_read_come_again() -> None:
    shard, twin = new_shard(), new_shard()
    push(shard, 0, range(40))
    out = RowsOut(shard, "twin")
    for n, some in enumerate(out.read(5)):
        push(shard, 1 + n, [n % 40, 39 - n % 40, 100 + n])
        take_rows(twin, some)
    take_all(out, twin)
    assert held(twin) == held(shard)


def test_a_reader_that_has_ended_costs_nothing() -> None:
    shard = new_shard()
    push(shard, 0, range(10))
    out = RowsOut(shard, "twin")
    list(out.read(100))
    assert all("twin" in group.readers for group in shard.groups.values())
    out.end()
    assert not any("twin" in group.readers for group in shard.groups.values())


def test_rows_of_a_group_that_is_not_there_are_refused() -> None:
    none = SomeRows("z", {"id": np.empty(0, np.uint64)}, np.empty(0, np.uint64), False)
    with pytest.raises(TableError, match="'z'"):
        take_rows(new_shard(), none)
