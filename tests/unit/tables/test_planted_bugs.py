"""The state machine of ``test_machine.py`` finds bugs that are planted into the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from heterps.tables import KeyedShard
from heterps.tables.live.changes import ChangeLog
from heterps.tables.live.gradients import RowGradients
from heterps.tables.live.group import RowGroup
from heterps.tables.live.owners import Owners
from heterps.tables.live.partition import RowPartition
from heterps.tables.live.readers import Readers
from heterps.tables.live.shard_cut import GroupCut, ShardCut
from heterps.tables.snapshots.chain import Chain
from heterps.tables.snapshots.records import fill
from tests.unit.tables.test_machine import TableMachine

pytestmark = pytest.mark.no_cover  # measuring would take twice as long, and directed tests cover the same

FIND = settings(
    max_examples=200,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def applies_a_key_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyedShard, "_begin", lambda self, key: self._applying.add(key) or True)


def forgets_to_delete(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RowPartition, "delete", lambda self, rows: None)


def cut_sees_later_changes(patch: pytest.MonkeyPatch) -> None:
    begin = RowPartition.begin_cut

    def careless(part: RowPartition, rows: Any = None) -> None:
        begin(part, rows)
        part.store.captured[:] = -1

    patch.setattr(RowPartition, "begin_cut", careless)


def restore_loses_slots(patch: pytest.MonkeyPatch) -> None:
    def forgetful(layout: Any, columns: Any, words: Any) -> None:
        fill(layout, {name: 0 * array if name.endswith(".slots") else array for name, array in columns.items()}, words)

    patch.setattr("heterps.tables.live.group.fill", forgetful)


def restore_forgets_the_window(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyedShard, "adopt", lambda self, ledger, version: None)


def not_a_number_counts_as_zero(patch: pytest.MonkeyPatch) -> None:
    columns = RowGradients.columns

    def lenient(grads: RowGradients, group: str) -> Any:
        found = columns(grads, group)
        values = np.nan_to_num(found.values, posinf=0, neginf=0)
        return found._replace(values=values, bits=values.view(np.uint32))

    patch.setattr(RowGradients, "columns", lenient)


def leaves_out_the_last_partition(patch: pytest.MonkeyPatch) -> None:
    run = Owners.run

    def lazy(owners: Owners, partitions: Any, bounds: Any, work: Any) -> Any:
        few = bounds.copy()
        few[-1] = few[-2]
        return run(owners, partitions, few if len(partitions) > 1 else bounds, work)

    patch.setattr(Owners, "run", lazy)


def index_misses_a_row(patch: pytest.MonkeyPatch) -> None:
    build = RowPartition.build_index

    def short(part: RowPartition) -> None:
        build(part)
        if len(part):
            part.store.entries[np.flatnonzero(part.store.entries[: int(part.meta[0])])[:1]] = 0

    patch.setattr(RowPartition, "build_index", short)


def deletions_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChangeLog, "delete", lambda self, ids, high: None)


def mark_is_set_when_the_cut_ends(patch: pytest.MonkeyPatch) -> None:
    """What changes while a cut is written belongs to the next one; here it is taken for seen."""
    end = ShardCut.end

    def late(cut: ShardCut) -> None:
        for group in cut.groups.values():
            forget_changes(group.group)
        end(cut)

    patch.setattr(ShardCut, "end", late)


def mark_is_set_after_the_copy(patch: pytest.MonkeyPatch) -> None:
    changed = Readers.changed

    def late(readers: Readers, reader: str, since: int | None = None) -> Any:
        found = changed(readers, reader, since)
        forget_changes(readers._group)
        return found

    patch.setattr(Readers, "changed", late)


def stamps_outlive_their_mark(patch: pytest.MonkeyPatch) -> None:
    """A row that was noted before the mark is taken for noted after it."""
    close = ChangeLog.close

    def same(log: ChangeLog, mark: int, high: int) -> None:
        close(log, mark, high)
        log.mark[0] = 1

    patch.setattr(ChangeLog, "close", same)


def forget_changes(group: RowGroup) -> None:
    for part in group.partitions:
        part.store.changed[: part.high // 64 + 1] = 0


def counters_change_unnoticed(patch: pytest.MonkeyPatch) -> None:
    def careless(part: RowPartition, rows: Any, counters: Any) -> None:
        first = part.layout.counter
        part.words.view(np.float32)[rows, first : first + part.layout.n_counters] = np.asarray(counters).T

    patch.setattr(RowPartition, "set_counters", careless)


def whole_shards_are_not_told(patch: pytest.MonkeyPatch) -> None:
    """A host that lost its marks writes all its rows, but nobody hears that the others are gone."""
    patch.setattr(GroupCut, "whole", [])


def older_changes_win(patch: pytest.MonkeyPatch) -> None:
    links = Chain.__init__

    def reversed_(chain: Chain, folder: Any) -> None:
        links(chain, folder)
        chain.links = (chain.links[0], *reversed(chain.links[1:]))

    patch.setattr(Chain, "__init__", reversed_)


def a_failed_cut_takes_its_changes_along(patch: pytest.MonkeyPatch) -> None:
    """The next one builds on the last that was finished, but asks for what changed since the failed one."""
    follow = KeyedShard._follow

    def newest(shard: KeyedShard, reader: str, since: str | None) -> Any:
        found = follow(shard, reader, since)
        newer = getattr(shard, "newest_marks", None)
        return found._replace(since=newer) if found.since and newer else found

    def cut(shard: KeyedShard, follow: Any, moment: str) -> Any:
        made = real_cut(shard, follow, moment)
        shard.newest_marks = made.marks  # type: ignore[attr-defined]
        return made

    real_cut = KeyedShard._cut
    patch.setattr(KeyedShard, "_follow", newest)
    patch.setattr(KeyedShard, "_cut", cut)


BUGS = (
    deletions_are_not_told,
    mark_is_set_when_the_cut_ends,
    mark_is_set_after_the_copy,
    stamps_outlive_their_mark,
    counters_change_unnoticed,
    applies_a_key_again,
    forgets_to_delete,
    cut_sees_later_changes,
    restore_loses_slots,
    restore_forgets_the_window,
    not_a_number_counts_as_zero,
    leaves_out_the_last_partition,
    index_misses_a_row,
)


def _name(bug: Callable[[pytest.MonkeyPatch], None]) -> str:
    return bug.__name__


#: Which take a certain order of cuts, failures and restores: the directed tests of increments know them, too.
RARE: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    whole_shards_are_not_told,
    older_changes_win,
    a_failed_cut_takes_its_changes_along,
)


@pytest.mark.parametrize("plant", [*BUGS, *(pytest.param(b, marks=pytest.mark.full) for b in RARE)], ids=_name)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heterps.tables.live.owners.WORTH_IT", 1)
    monkeypatch.setattr("heterps.tables.live.row_layout.LONG", 3)
    plant(monkeypatch)
    with pytest.raises(Exception) as found:
        run_state_machine_as_test(TableMachine, settings=settings(FIND, max_examples=800 if plant in RARE else 200))
    assert found.type is not TypeError, "the plant itself is broken"
