"""A worker's own rows against real shard hosts, without an engine between them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps import ops
from heterps.data import Batch
from heterps.errors import PlanError
from heterps.protocol.words import instructions as do
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Pull, Push, Reply
from heterps.protocol.words.modes import Async, Geo
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.geo_copy import GeoCopy
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import Pulled, Refreshed, bytes_in
from heterps.runtime.wire.packing import pack_reply, pack_request, unpack_reply, unpack_request
from heterps.runtime.workers.shard_host import ShardHost
from heterps.tables import SGD, CountEntry, CtrAccessor, Momentum, Rule
from heterps.tables.hashing import shards_of
from heterps.tables.loops.row_loops import NO_ROW
from heterps.testing.small_model import columns, graph

N, K = 32, 3
TERMS = (1, 1)


def job(rule: Rule | None = None, **given: Any) -> Job:
    model = Model(graph(), rule or SGD(lr=0.1), rule or SGD(lr=0.1))
    return Job(model, N, given.pop("mode", Geo(K)), hosts=2, **given)


def asked_of(host: ShardHost, request: Pull | Push, payload: Any) -> Pulled | Refreshed | None:
    """Ask a host through messages, as between processes."""
    answers: list[Pulled | Refreshed | None] = []

    def done(reply: Reply, more: Pulled | Refreshed | None) -> None:
        answers.append(unpack_reply(pack_reply(reply, more))[1])

    host.request(*unpack_request(pack_request(request, payload)), done)
    return answers[0]


class Pair:
    """Two shard hosts and any number of benches that train on them in turn."""

    def __init__(self, what: Job) -> None:
        self.job = what
        self.hosts = [ShardHost(what, host, host, lambda event: None) for host in range(what.hosts)]
        for host in self.hosts:
            host.deliver(do.CreateHost(host.host, host.host, "w", 1, 0, what.owned(host.host)))

    def bench(self, lane: int = 0) -> Workbench:
        made = Workbench(self.job)
        made.copy.enter(lane, lane, TERMS)
        return made

    def learn(self, bench: Workbench, n: int, seed: int | None = None, split: int = 0) -> int:
        """Train on one batch; return how many hosts had to be asked."""
        work = bench.begin(Batch(BatchKey(0, split, n), N, columns(N, n if seed is None else seed)))
        asked = 0
        for host in self.hosts:
            wanted = bench.copy.wanted(work, host.host)
            if wanted is not None:
                answer = asked_of(host, Pull(1, 1, work.key, 0, 0), wanted)
                assert isinstance(answer, Pulled)
                bench.copy.take(work, host.host, wanted, answer)
                asked += 1
        bench.compute(work)
        bench.free(work)
        return asked

    def settle(self, bench: Workbench, n: int, split: int = 0) -> None:
        """Exchange the range that begins with batch n."""
        unit = BatchKey(0, split, n)
        for host in self.hosts:
            sent = bench.copy.settle(unit, [], host.host)
            answer = asked_of(host, Push(1, 1, unit, 0, 0, K), sent)
            assert isinstance(answer, Refreshed)
            assert bytes_in(answer) > 0
            bench.copy.refresh(host.host, answer)
        bench.copy.free(unit)

    def tables(self) -> dict[str, np.ndarray]:
        ids = np.unique(columns(N * 100)["ids"])
        found: dict[str, np.ndarray] = {}
        for host in self.hosts:
            assert host.shard is not None
            found[f"dense{host.host}"] = host.shard.pull_dense()
            owners = self.job.owners
            mine = ids[np.array(owners)[shards_of(ids, len(owners))] == host.host]
            for name in host.shard.groups:
                found[f"{name}{host.host}"] = host.shard.pull(name, mine).values
        return found


@pytest.mark.parametrize("rule", [SGD(lr=0.1), Momentum(lr=0.1)], ids=lambda rule: type(rule).__name__)
def test_one_worker_alone_trains_as_if_it_had_the_tables(rule: Rule) -> None:
    geo, plain = Pair(job(rule)), Pair(job(rule, mode=Async(depth=1)))
    bench, other = geo.bench(), plain.bench()
    for n in range(4 * K):
        geo.learn(bench, n)
        if n % K == K - 1:
            geo.settle(bench, n + 1 - K)
        work = other.begin(Batch(BatchKey(0, 0, n), N, columns(N, n)))
        for host in plain.hosts:
            wanted = other.copy.wanted(work, host.host)
            assert wanted is not None
            other.copy.take(work, host.host, wanted, host.read(wanted))
        other.compute(work)
        for host in plain.hosts:
            host._apply(work.key, other.copy.settle(work.key, [work], host.host))
        other.free(work)
    wanted_tables, found = plain.tables(), geo.tables()
    for name, values in wanted_tables.items():
        np.testing.assert_allclose(found[name], values, atol=2e-5, err_msg=name)
    assert geo.hosts[0].counts.batches == plain.hosts[0].counts.batches == 4 * K
    assert geo.hosts[0].counts.samples == 4 * K * N


def test_hosts_are_asked_only_for_what_is_lacking() -> None:
    pair = Pair(job())
    bench = pair.bench()
    assert pair.learn(bench, 0, seed=1) == 2
    assert pair.learn(bench, 1, seed=1) == 0, "the same ids again"


def test_what_one_has_learned_reaches_the_other_with_its_next_exchange() -> None:
    pair = Pair(job(lanes=1))
    one, two = pair.bench(1), pair.bench(2)
    for n in range(K):
        pair.learn(one, n, seed=5)
        pair.learn(two, n, seed=5, split=1)
    assert isinstance(one.copy, GeoCopy)
    assert isinstance(two.copy, GeoCopy)
    pair.settle(one, 0)
    pair.settle(two, 0, split=1)
    assert pair.hosts[0].shard is not None
    there = pair.hosts[0].shard.pull_dense()
    np.testing.assert_allclose(two.copy._dense.values[: len(there)], there, atol=1e-6)
    assert abs(one.copy._dense.values[: len(there)] - there).max() > 1e-4, "it has not heard of the other yet"
    pair.learn(one, K, seed=5)
    pair.settle(one, K)
    there = pair.hosts[0].shard.pull_dense()
    np.testing.assert_allclose(one.copy._dense.values[: len(there)], there, atol=1e-5)
    for name, rows in one.copy._rows.items():
        ids = rows.ids[np.isin(rows.ids, pair.hosts[0].shard.group(name).changed("test").ids)]
        out = np.empty((len(ids), rows.spec.width), np.float32)
        rows.read(ids, out)
        np.testing.assert_allclose(out, pair.hosts[0].shard.pull(name, ids).values, atol=1e-5)


def test_a_settlement_is_the_same_however_often_it_is_sent() -> None:
    pair = Pair(job())
    bench = pair.bench()
    for n in range(K):
        pair.learn(bench, n)
    first = bench.copy.settle(BatchKey(0, 0, 0), [], 0)
    pair.learn(bench, K)
    again = bench.copy.settle(BatchKey(0, 0, 0), [], 0)
    for name, rows in first.rows.items():
        np.testing.assert_array_equal(rows.values, again.rows[name].values)
    assert (first.samples, first.loss) == (again.samples, again.loss)
    assert first.samples == K * N


def test_the_first_batch_of_the_next_range_settles_the_one_before() -> None:
    """Whatever the order of the engine's actions, a range owes what was learned in it."""
    pair = Pair(job())
    bench = pair.bench()
    for n in range(K + 1):
        pair.learn(bench, n)
    assert bench.copy.settle(BatchKey(0, 0, 0), [], 0).samples == K * N


@pytest.mark.parametrize("whole", [True, False])
def test_an_attempt_that_leaves_a_range_unfinished_leaves_nothing(whole: bool) -> None:
    pair = Pair(job())
    bench = pair.bench()
    for n in range(K):
        pair.learn(bench, n)
    pair.settle(bench, 0)
    if not whole:
        pair.learn(bench, K)
    bench.copy.leave(0, TERMS, whole=whole)
    assert (bench.copy.size.local_rows > 0) is whole
    bench.copy.enter(7, 0, TERMS)
    assert (bench.copy.size.local_rows > 0) is whole
    bench.copy.leave(7, TERMS, whole=True)
    bench.copy.enter(8, 0, (2, 1))
    assert bench.copy.size.local_rows == 0, "a host has returned to an earlier state meanwhile"


def test_an_attempt_that_lost_its_rows_to_another_does_nothing_more() -> None:
    bench = Pair(job()).bench(1)
    bench.copy.enter(2, 1, TERMS)
    assert not bench.copy.belongs_to(1)
    bench.copy.leave(1, TERMS, whole=False)
    assert bench.copy.belongs_to(2)


def test_rows_of_a_host_that_cannot_say_what_changed_are_asked_for_again() -> None:
    pair = Pair(job())
    bench = pair.bench()
    for n in range(K):
        pair.learn(bench, n, seed=1)
    bench.copy.settle(BatchKey(0, 0, 0), [], 0)
    assert pair.hosts[0].shard is not None
    pair.hosts[0].shard.incarnation = "another"
    pair.settle(bench, 0)
    assert pair.learn(bench, K, seed=1) == 1
    assert pair.learn(bench, K + 1, seed=1) == 0


def test_what_was_learned_of_deleted_rows_does_not_bring_them_back() -> None:
    pair = Pair(job())
    bench = pair.bench()
    for n in range(K):
        pair.learn(bench, n)
    host = pair.hosts[0]
    assert host.shard is not None
    name, group = next(iter(host.shard.groups.items()))
    deleted = group.changed("test").ids[:5]
    group.delete(deleted)
    assert np.isin(deleted, bench.copy.settle(BatchKey(0, 0, 0), [], 0).rows[name].ids).all()
    pair.settle(bench, 0)
    assert (group.find(deleted) == NO_ROW).all()
    assert isinstance(bench.copy, GeoCopy)
    assert not np.isin(deleted, bench.copy._rows[name].ids).any(), "the answer says so"


def test_a_dismissed_worker_costs_hosts_nothing_more() -> None:
    pair = Pair(job())
    pair.learn(pair.bench(3), 0)
    host = pair.hosts[0]
    assert host.shard is not None
    (follower,) = host._readers.names
    assert all(follower in group.readers for group in host.shard.groups.values())
    host._readers.dismiss(host.shard, 4)
    assert host._readers.names
    host._readers.dismiss(host.shard, 3)
    assert not host._readers.names
    assert not any(follower in group.readers for group in host.shard.groups.values())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rule": hps.Adam()}, r"table 'vectors' has the rule Adam.*SGD and Momentum"),
        ({"rule": hps.AdaGrad()}, r"has the rule AdaGrad"),
        ({"local_rows": 0}, "at least one row"),
        ({"mode": Async(), "local_rows": 5}, "mode 'async' keeps no rows"),
        ({"stages": (("a",), ("b",))}, "the plan has 2 stages"),
    ],
)
def test_what_cannot_be_trained_on_own_rows_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        job(**given)


def test_rows_that_only_hosts_can_begin_are_refused_by_name() -> None:
    def lookup(**attrs: Any) -> Job:
        ids, y = ops.input("ids", shape=(1,), dtype="uint64"), ops.input("y")
        table = ops.lookup(ids, table="seen", dim=2, **attrs)
        graph = hps.Graph(loss=ops.logloss(ops.dense(ops.reshape(table, (2,)), 1, name="out"), y))
        return Job(Model(graph, SGD(), SGD()), N, Geo(K))

    with pytest.raises(PlanError, match="table 'seen' has the entry CountEntry"):
        lookup(entry=CountEntry(2))
    with pytest.raises(PlanError, match="'seen' begin when its accessor's score is reached"):
        lookup(accessor=CtrAccessor())
    assert replace(lookup(accessor=CtrAccessor(embed=2)), hosts=2).hosts == 2
