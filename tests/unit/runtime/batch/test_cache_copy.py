"""A worker's cache of rows against real shard hosts, without an engine between them."""

from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps.data import Batch
from heterps.errors import PlanError
from heterps.planner.ways import Way
from heterps.protocol.words import instructions as do
from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Granted, Pull, Push, Reply
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.bench import Workbench
from heterps.runtime.batch.cache_copy import CacheCopy
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import Pulled, PushedGradients, Refreshed, Wanted
from heterps.runtime.wire.packing import pack_reply, pack_request, unpack_reply, unpack_request
from heterps.runtime.workers.shard_host import ShardHost
from heterps.tables import Adam, ElementAdaGrad
from heterps.testing.small_model import columns, graph

N, TERMS = 32, (1, 1)


def job(staleness: int = 3, rows: int = 1000, **given: Any) -> Job:
    ways = {table: Way("cache", rows) for table in ("vectors", "wide")}
    model = Model(graph(), ElementAdaGrad(lr=0.05), Adam(lr=0.01))
    return Job(model, N, hps.Cached(staleness), hosts=2, **{"ways": ways, **given})


class Played:
    """Two shard hosts and a bench; pulls and pushes are carried out when the test says so."""

    def __init__(self, what: Job) -> None:
        self.job, self.unit = what, what.mode.unit
        self.hosts = [ShardHost(what, host, host, lambda event: None) for host in range(what.hosts)]
        for host in self.hosts:
            host.deliver(do.CreateHost(host.host, host.host, "w", 1, 0, what.owned(host.host)))
        self.bench = Workbench(what)
        self.bench.copy.enter(1, 0, TERMS)

    @property
    def copy(self) -> CacheCopy:
        assert isinstance(self.bench.copy, CacheCopy)
        return self.bench.copy

    def begin(self, n: int, seed: int | None = None) -> BatchWork:
        return self.bench.begin(Batch(BatchKey(0, 0, n), N, columns(N, n if seed is None else seed)))

    def asked(self, work: BatchWork) -> list[int]:
        """Return for how many rows each host is asked."""
        wanted = [self.copy.wanted(work, host.host) for host in self.hosts]
        return [0 if each is None else sum(map(len, each.ids.values())) for each in wanted]

    def pull(self, work: BatchWork) -> None:
        for host in self.hosts:
            wanted = self.copy.wanted(work, host.host)
            if wanted is not None:
                answer = _ask(host, Pull(1, 1, work.key, 0, 0), wanted)
                assert isinstance(answer, Pulled)
                self.copy.take(work, host.host, wanted, answer)

    def learn(self, n: int, seed: int | None = None) -> None:
        work = self.begin(n, seed)
        self.pull(work)
        self.bench.compute(work)
        self.bench.free(work)

    def settle(self, n: int, batches: int | None = None) -> list[PushedGradients]:
        key, sent = BatchKey(0, 0, n), []
        for host in self.hosts:
            sent.append(self.copy.settle(key, [], host.host))
            assert _ask(host, Push(1, 1, key, 0, 0, batches or self.unit), sent[-1]) is None
        self.copy.free(key)
        return sent


def _ask(host: ShardHost, request: Pull | Push, payload: Any) -> Pulled | Refreshed | None:
    """Ask a host through messages, as between processes."""
    answers: list[Pulled | Refreshed | None] = []

    def done(reply: Reply, more: Pulled | Refreshed | None) -> None:
        told, answer = unpack_reply(pack_reply(reply, more))
        if isinstance(answer, Pulled) and isinstance(told, Granted):
            answer.low = told.low
        answers.append(answer)

    host.request(*unpack_request(pack_request(request, payload)), done)
    return answers[0]


def test_rows_are_asked_for_again_when_they_lack_too_many_batches() -> None:
    played = Played(job(staleness=3))
    assert played.unit == 2
    for n in range(4):
        work = played.begin(n, seed=1)
        assert (sum(played.asked(work)) > 0) is (n == 0), n
        played.pull(work)
        played.bench.compute(work)
        if n % 2:
            played.settle(n - 1)
    work = played.begin(4, seed=1)
    assert sum(played.asked(work)) > 0, "what was read before batch 0 lacks four batches"
    use = played.bench.exchange.take().caches["vectors, wide"]
    assert use.oldest == 3
    assert use.rows > use.asked > 0
    assert use.saved_bytes > 0


def test_what_an_earlier_batch_has_asked_for_is_not_asked_for_again() -> None:
    played = Played(job())
    first, second = played.begin(0, seed=1), played.begin(1, seed=1)
    assert sum(played.asked(first)) > 0
    assert sum(played.asked(second)) == 0
    assert played.asked(first) == played.asked(first), "sent again as it was"
    played.pull(first)
    for work in (first, second):
        played.bench.compute(work)
    assert second.loss < first.loss, "it sees what the first one taught, before any host does"


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_dense_parameters_are_here_what_hosts_will_make_of_them(rate: float) -> None:
    played = Played(job(staleness=7, rate=rate))
    for n in range(3):
        played.learn(n)
    work = played.begin(3)
    played.pull(work)
    played.bench.compute(work)
    here = work.dense.copy()
    played.settle(0)
    there = np.concatenate([host.tables().pull_dense() for host in played.hosts])
    np.testing.assert_array_equal(here, there)
    again = played.begin(4)
    played.pull(again)
    np.testing.assert_array_equal(played.copy._dense, there)


def hosts_have(played: Played, work: BatchWork, group: str) -> np.ndarray:
    shares = [host.read(Wanted({group: work.routed[group].of(host.host)}, train=False)) for host in played.hosts]
    return np.concatenate([share.values[group] for share in shares])


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_rows_that_stay_are_here_what_hosts_will_make_of_them(rate: float) -> None:
    played = Played(job(staleness=3, rate=rate))
    for n in range(5):  # with the fourth they are asked for again, and stay
        played.learn(n, seed=1)
        if n % 2:
            played.settle(n - 1)
    work, group = played.begin(5, seed=1), "vectors+wide"
    played.pull(work)
    played.copy.fill(work)
    here = work.rows(group, 5).copy()
    assert not np.array_equal(here, hosts_have(played, work, group))
    played.settle(4, batches=1)
    np.testing.assert_array_equal(here, hosts_have(played, work, group))


def test_a_unit_that_a_host_has_taken_is_not_put_on_top_of_its_rows() -> None:
    """Its rows were asked for before the worker heard that the unit has arrived, and served after it had."""
    played = Played(job(staleness=3))
    for n in range(6):
        played.learn(n, seed=1)
        if n in (1, 3):
            played.settle(n - 1)
    for cached in played.copy._rows.values():
        cached._heard[:] = cached._coming[:] = -100  # as if all were too old
    work, group, unit = played.begin(6, seed=1), "vectors+wide", BatchKey(0, 0, 4)
    assert sum(played.asked(work)) == len(work.routed[group])
    for host in played.hosts:
        _ask(host, Push(1, 1, unit, 0, 0, 2), played.copy.settle(unit, [], host.host))
    played.pull(work)
    played.copy.fill(work)
    np.testing.assert_array_equal(work.rows(group, 5), hosts_have(played, work, group))


@pytest.mark.parametrize("rows", [1, 40])
def test_every_gradient_is_settled_whether_or_not_its_row_is_kept(rows: int) -> None:
    few, many = Played(job(rows=rows)), Played(job())
    for n in range(2):
        few.learn(n)
        many.learn(n)
    assert rows - rows // 8 <= few.copy.size.local_rows <= rows
    for one, other in zip(few.settle(0), many.settle(0), strict=True):
        for name, owed in one.rows.items():
            np.testing.assert_array_equal(owed.ids, other.rows[name].ids)
            np.testing.assert_array_equal(owed.values, other.rows[name].values)
        np.testing.assert_array_equal(one.dense, other.dense)


def test_dense_parameters_take_a_step_for_each_batch() -> None:
    played = Played(job())
    played.learn(0)
    played.learn(1)
    sent = played.settle(0)
    assert sent[0].dense is not None
    assert sent[0].dense.shape[0] == 2
    assert sent[0].samples == 2 * N
    assert played.hosts[0].counts.batches == 2
    assert played.hosts[0].counts.samples == 2 * N


def test_a_settlement_is_the_same_however_often_it_is_sent() -> None:
    played = Played(job())
    played.learn(0)
    played.learn(1)
    first = played.copy.settle(BatchKey(0, 0, 0), [], 0)
    played.learn(2)
    again = played.copy.settle(BatchKey(0, 0, 0), [], 0)
    for name, rows in first.rows.items():
        np.testing.assert_array_equal(rows.values, again.rows[name].values)
    assert (first.samples, first.loss) == (again.samples, again.loss)


@pytest.mark.parametrize("whole", [True, False])
def test_an_attempt_that_leaves_a_unit_unfinished_leaves_nothing(whole: bool) -> None:
    played = Played(job())
    played.learn(0)
    played.learn(1)
    played.settle(0)
    if not whole:
        played.learn(2)
    played.copy.leave(1, TERMS, whole=whole)
    assert (played.copy.size.local_rows > 0) is whole
    played.copy.enter(2, 0, TERMS)
    assert (played.copy.size.local_rows > 0) is whole
    work = played.begin(0, seed=9)
    played.pull(work)
    played.bench.compute(work)
    assert played.copy.settle(BatchKey(0, 0, 0), [], 0).samples == N, "of its own batch alone"
    played.copy.leave(2, TERMS, whole=True)
    played.copy.enter(3, 0, (2, 1))
    assert played.copy.size.local_rows == 0, "a host has returned to an earlier state meanwhile"


def test_the_same_ids_in_the_next_split_are_as_old_as_they_are() -> None:
    played = Played(job(staleness=3))
    for n in range(2):
        played.learn(n, seed=1)
    played.settle(0)
    played.copy.leave(1, TERMS, whole=True)
    played.copy.enter(2, 0, TERMS)
    for n, asks in enumerate((False, False, True)):
        work = played.begin(n, seed=1)
        assert (sum(played.asked(work)) > 0) is asks, n
        played.pull(work)
        played.bench.compute(work)


def test_nothing_is_expected_from_hosts_but_rows() -> None:
    with pytest.raises(TypeError, match="follows nothing"):
        Played(job()).copy.refresh(0, None)  # type: ignore[arg-type]


def test_bytes_of_a_cache_are_turned_into_rows_of_the_group() -> None:
    small = job(ways={"vectors": Way("cache", 9300, in_bytes=True), "wide": Way("cache", 9300, in_bytes=True)})
    (group,) = small.model.groups
    assert 40 <= small.cached_rows(group) <= 80, "its slots, and two units' changes, are kept with a row"
    assert job(ways={}).cached_rows(group) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": hps.Sync()}, r"table 'vectors' has a cache.*not 'sync'"),
        ({"mode": hps.Geo(3), "rule": True}, r"table 'vectors' has a cache.*not 'geo'"),
        ({"local_rows": 5}, r"local_rows=5, but mode 'cache' keeps as many rows as cache_rows= says"),
    ],
)
def test_what_cannot_be_cached_is_named(given: dict[str, Any], message: str) -> None:
    rule = hps.SGD() if given.pop("rule", False) else ElementAdaGrad()
    model = Model(graph(), rule, rule)
    ways = {table: Way("cache", 5) for table in ("vectors", "wide")}
    with pytest.raises(PlanError, match=message):
        Job(model, N, **{"mode": hps.Cached(), "hosts": 2, "ways": ways, **given})
