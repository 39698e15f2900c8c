"""Rows that are trained on a device above a RowGroup: what readers, cuts and writers below see of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heterps.device import namespace, to_host
from heterps.errors import TableError, TableFullError
from heterps.protocol import BatchKey, Window
from heterps.tables import RowGradients, Snapshots, restore, write_part
from heterps.tables.live.shard import KeyedShard
from heterps.tables.on_device.array_rows import ArrayRows, rows_on
from heterps.tables.on_device.device_group import DeviceGroup
from heterps.tables.on_device.device_rows import device_bytes
from heterps.tables.on_device.group_check import GROUP, check_device_group
from heterps.tables.on_device.host_rows import take_words
from heterps.tables.on_device.lane_sums import sum_there
from tests.gpu.host import host_kernels, needs_gpp

xp = namespace("fake")
NAME, WIDTH = GROUP.name, GROUP.width
ROOM = 5
IDS = np.arange(12, dtype=np.uint64)


def shard(room: int | None = ROOM) -> KeyedShard:
    """Rows trained on the strict device by array functions; a table with room for a few, or None: on the host."""
    limit = device_bytes(GROUP, room or 1)
    return KeyedShard([GROUP], seed=3, on_gpu=None if room is None else partial(DeviceGroup, xp=xp, limit=limit))


def train(shard: KeyedShard, n: int, ids: Any, value: float = 1.0) -> None:
    ids = np.array(sorted(ids), np.uint64)
    shard.pull(NAME, ids)
    gradients = np.full((len(ids), WIDTH), value, np.float32) * (1 + np.arange(len(ids), dtype=np.float32))[:, None]
    shard.push(BatchKey(0, 0, n), {NAME: RowGradients(ids, gradients)})


def words(shard: KeyedShard) -> np.ndarray:
    return take_words(shard.group(NAME), IDS)


def test_array_functions_do_what_the_kernels_do() -> None:
    assert isinstance(rows_on(xp, GROUP, seed=0), ArrayRows)
    check_device_group(xp, exact=False)


def test_a_cut_has_what_was_trained_before_it_and_nothing_that_came_after(tmp_path: Path) -> None:
    there, here = shard(), shard(None)
    for n, ids in enumerate(([1, 2, 3], [2, 7, 8, 9], [1, 4])):
        train(there, n, ids)
        train(here, n, ids)
    with there.cut() as cut:
        for n in range(3, 9):  # turns come down while the cut is being written
            train(there, n, [n % 4, 5 + n % 5, 11])
        folder = Snapshots(tmp_path).begin()
        part = write_part(cut, folder, host=0)
    Snapshots(tmp_path).commit(folder, [part], ledger=Window(), seed=3, groups=[GROUP], dense=[])
    again = shard()
    restore(again, tmp_path)
    np.testing.assert_allclose(words(again), words(here), rtol=1e-6)
    assert (words(there) != words(here)).any()


def test_gradients_for_rows_that_have_come_down_are_applied_above_again() -> None:
    there, here = shard(), shard(None)
    for each in (there, here):
        train(each, 0, [1, 2])
        assert len(each.group(NAME)) == 2  # whoever asks has everything come down
        values = np.full((2, WIDTH), 0.5, np.float32)
        each.push(BatchKey(0, 0, 1), {NAME: RowGradients(np.array([1, 2], np.uint64), values)})
    assert len(there.above[NAME]) == 2
    np.testing.assert_allclose(words(there), words(here), rtol=1e-6)


actions = st.one_of(
    st.tuples(st.just("train"), st.sets(st.integers(0, 11), min_size=1, max_size=7)),
    st.tuples(st.sampled_from(["read", "cut", "set", "save", "clear"]), st.sets(st.integers(0, 11), min_size=1)),
)


@given(story=st.lists(actions, max_size=14))
@settings(max_examples=12, deadline=None)
def test_whoever_reads_or_writes_below_in_between_it_is_as_on_a_host(story: list[tuple[str, set[int]]]) -> None:
    there, here = shard(), shard(None)
    for n, (what, chosen) in enumerate(story):
        ids = np.array(sorted(chosen), np.uint64)
        for each in (there, here):
            if what == "train":
                train(each, n, chosen)
            elif what == "set":
                each.group(NAME).set_table("b", ids, np.full((len(ids), 2), n, np.float32))
            elif what == "cut":
                each.cut().end()
            elif what == "clear":
                each.clear()
        if what == "read":
            read = [each.pull(NAME, ids, train=False).values for each in (there, here)]
            np.testing.assert_allclose(read[0], read[1], rtol=1e-5, atol=1e-7)
        if what == "save":
            np.testing.assert_allclose(words(there), words(here), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(words(there), words(here), rtol=1e-5, atol=1e-7)


def test_a_full_table_below_refuses_before_anything_is_changed() -> None:
    small = replace(GROUP, budget=3)
    there = KeyedShard([small], seed=3, on_gpu=partial(DeviceGroup, xp=xp, limit=device_bytes(small, 2)))
    train(there, 0, [1, 2, 3])
    before = words_of(there, [1, 2, 3])
    gradients = RowGradients(np.array([1, 2, 4], np.uint64), np.ones((3, WIDTH), np.float32))
    with pytest.raises(TableFullError, match="risen"):
        there.push(BatchKey(0, 0, 1), {NAME: gradients})
    assert (words_of(there, [1, 2, 3]) == before).all()


def words_of(shard: KeyedShard, ids: list[int]) -> np.ndarray:
    return take_words(shard.group(NAME), np.array(ids, np.uint64))


def test_reserved_ids_are_refused() -> None:
    with pytest.raises(TableError, match="is reserved"):
        shard().pull(NAME, np.array([2**64 - 1], np.uint64))


def test_lanes_are_added_as_on_a_host() -> None:
    rng = np.random.default_rng(0)
    lanes = [
        RowGradients(np.array(ids, np.uint64), rng.standard_normal((len(ids), 2)).astype(np.float32), version=v)
        for v, ids in enumerate(([5, 1, 9], [9, 2], [], [1, 9, 5, 7]), 4)
    ]
    there = sum_there([RowGradients(lane.ids, xp.asarray(lane.values), version=lane.version) for lane in lanes])
    here = sum_there(lanes)
    assert there.ids.tolist() == here.ids.tolist() == [1, 2, 5, 7, 9]
    assert (to_host(there.values) == here.values).all()
    assert there.version == here.version == 4


@needs_gpp
@pytest.mark.full
@given(story=st.lists(st.sets(st.integers(0, 11), min_size=1, max_size=7), max_size=10), seed=st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_whatever_the_order_of_device_threads_it_has_the_bits_of_a_host(story: list[set[int]], seed: int) -> None:
    here = shard(None)
    with host_kernels(seed=seed, fibers=True):
        there = shard()
        for n, chosen in enumerate(story):
            train(there, n, chosen)
            train(here, n, chosen)
        assert (words(there) == words(here)).all()
