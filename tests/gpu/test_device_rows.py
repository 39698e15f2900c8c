"""Rows on a device: what is refused, growth within limits, rules from outside, and the way to and from hosts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from heterps.device import namespace, to_device, to_host
from heterps.errors import TableError, TableFullError
from heterps.tables.live.group import RowGroup
from heterps.tables.on_device.checks import BUILT_IN, group_of, train_on_device, train_on_host
from heterps.tables.on_device.dedupe import distinct
from heterps.tables.on_device.device_rows import DeviceRows, device_bytes
from heterps.tables.specs.accessor import CtrAccessor
from heterps.tables.specs.entries import CountEntry
from heterps.tables.specs.rules import RULES, SGD, Rule, Sum
from heterps.tables.specs.spec import GroupSpec, TableSpec
from tests.gpu.host import host_kernels, needs_gpp

pytestmark = needs_gpp
xp = namespace("fake")


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Iterator[None]:
    with host_kernels():
        yield


def test_every_built_in_rule_is_checked() -> None:
    assert sorted(type(rule).__name__ for rule in BUILT_IN) == sorted(
        name for name in RULES if RULES[name].__module__.startswith("heterps.")
    )


@given(ids=st.lists(st.integers(0, 30), min_size=1, max_size=60), seed=st.integers(0, 50))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_behaves_as_a_dict_of_rows(ids: list[int], seed: int) -> None:
    table, known = DeviceRows(group_of(Sum(), dims=(2,)), seed=0, xp=xp, rows=1), dict[int, int]()
    with host_kernels(seed=seed, fibers=True):
        for start in range(0, len(ids), 7):
            some = np.unique(np.array(ids[start : start + 7], np.uint64))
            rows = to_host(table.find_or_create(to_device(some, xp)))
            for id_, row in zip(some.tolist(), rows.tolist(), strict=True):
                assert known.setdefault(id_, row) == row
    assert len(table) == len(known) == len(set(known.values()))
    assert sorted(known.values()) == list(range(len(known)))


@given(ids=st.lists(st.integers(0, 2**64 - 2) | st.integers(0, 5), max_size=50))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_distinct_ids(ids: list[int]) -> None:
    host = np.array(ids, np.uint64)
    found = distinct(xp, to_device(host, xp))
    unique, inverse = np.unique(host, return_inverse=True)
    np.testing.assert_array_equal(to_host(found.ids), unique)
    np.testing.assert_array_equal(to_host(found.inverse), inverse)
    order, starts = to_host(found.order), to_host(found.starts)
    for k in range(len(unique)):
        np.testing.assert_array_equal(order[starts[k] : starts[k + 1]], np.flatnonzero(inverse == k))


@RULES.add
@dataclass(frozen=True)
class Halving(Rule):
    """``w = w / 2 - g``."""

    cuda: ClassVar[str] = "    for (int j = 0; j < n; ++j) w[j] = bound(p, w[j] / 2.0f - g[j] * p[2]);\n"

    def numbers(self, step: int) -> tuple[float, ...]:
        return (1.0 + step,)


@RULES.add
@dataclass(frozen=True)
class HostOnly(Rule):
    """A rule that nobody wrote in CUDA."""

    def numbers(self, step: int) -> tuple[float, ...]:
        return ()


def test_a_rule_from_outside_brings_its_own_body() -> None:
    table = DeviceRows(group_of(Halving(), SGD(lr=1.0), dims=(2,)), seed=0, xp=xp)
    ids = to_device(np.array([4], np.uint64), xp)
    before = to_host(table.pull(ids, train=True)[0])
    table.push(ids, to_device(np.array([[1, 2, 3, 4]], np.float32), xp), step=1)
    after = to_host(table.pull(ids, train=False)[0])
    half = before[0, :2] / np.float32(2) - np.array([2, 4], np.float32)
    np.testing.assert_array_equal(after[0], np.append(half, before[0, 2:] - np.array([3, 4], np.float32)))


def test_a_rule_without_a_cuda_body_is_refused_by_name() -> None:
    with pytest.raises(TableError, match="rule HostOnly has no CUDA body"):
        DeviceRows(group_of(HostOnly()), seed=0, xp=xp)


@pytest.mark.parametrize(
    ("table", "group", "why"),
    [
        ({"accessor": CtrAccessor()}, {}, "an accessor"),
        ({"entry": CountEntry(2)}, {}, "an entry"),
        ({"dtype": "float16"}, {}, "dtype float16"),
        ({}, {"when_full": "least_recent"}, "when_full='least_recent'"),
    ],
)
def test_what_a_device_does_not_know_is_refused_by_name(table: dict, group: dict, why: str) -> None:
    spec = GroupSpec("g", (TableSpec("t", 3, **table),), **group)
    with pytest.raises(TableError, match=f"group 'g' has {why}"):
        DeviceRows(spec, seed=0, xp=xp)


def test_a_device_without_kernels_is_refused() -> None:
    with pytest.raises(TableError, match="runs no CUDA kernels"):
        DeviceRows(group_of(Sum()), seed=0, xp=np)


def test_the_reserved_id_is_refused() -> None:
    table = DeviceRows(group_of(Sum()), seed=0, xp=xp)
    with pytest.raises(TableError, match="reserved"):
        table.pull(to_device(np.array([1, 2**64 - 1], np.uint64), xp), train=True)
    assert len(table) == 0


def test_memory_is_forecast_and_growth_beyond_the_limit_refused() -> None:
    group = group_of(*BUILT_IN)
    table = DeviceRows(group, seed=0, xp=xp, rows=100)
    assert table.nbytes == device_bytes(group, 100)
    limit = 3 * device_bytes(group, 100)
    table = DeviceRows(group, seed=0, xp=xp, rows=100, limit=limit)
    ids = to_device(np.arange(100, dtype=np.uint64), xp)
    table.pull(ids, train=True)
    with pytest.raises(TableFullError, match=r"300 rows take [\d,]+ bytes .* enough for \d+: leave the table on the"):
        table.pull(to_device(np.arange(300, dtype=np.uint64), xp), train=True)
    assert len(table) == 100  # as it was, and usable
    np.testing.assert_array_equal(to_host(table.find(ids)), np.arange(100))
    with pytest.raises(TableFullError):
        DeviceRows(group, seed=0, xp=xp, rows=1000, limit=limit)


def test_rows_come_from_hosts_and_go_back() -> None:
    group = group_of(*BUILT_IN, dims=(3,))
    trained = train_on_host(group, 2)
    table = DeviceRows(group, seed=77, xp=xp, rows=1)
    table.load(trained.ids, trained.words)
    ids, words = table.save()
    np.testing.assert_array_equal(ids, trained.ids)
    np.testing.assert_array_equal(words, trained.words)


def test_new_rows_start_as_on_hosts() -> None:
    ids = np.arange(50, dtype=np.uint64)
    group = group_of(*BUILT_IN, dims=(5, 2))
    expected = RowGroup(group, seed=5, owned=range(4)).pull(ids, train=True)[0]
    got = DeviceRows(group, seed=5, xp=xp).pull(to_device(ids, xp), train=True)[0]
    np.testing.assert_array_equal(to_host(got), expected)


def test_results_do_not_depend_on_the_order_of_threads() -> None:
    group = group_of(*BUILT_IN)
    first = train_on_device(group, 1, xp, rows=1)
    for seed in (3, 4):
        with host_kernels(seed=seed, workers=3):
            again = train_on_device(group, 1, xp, rows=1)
        np.testing.assert_array_equal(first.words, again.words)
