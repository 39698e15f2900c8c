"""A host actor between runs, and words that come late."""

import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.security import Security

from heterps.protocol.words import instructions as do
from heterps.protocol.words.modes import Async
from heterps.runtime.batch.job import Job
from heterps.runtime.batch.model import Model
from heterps.runtime.workers import host_actor
from heterps.runtime.workers.host_actor import HostActor
from heterps.testing.small_model import graph

JOB = Job(Model(graph()), 64, Async(), memory_bytes=1 << 30)


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Any:
    worker = SimpleNamespace(address="tcp://127.0.0.1:1", security=Security(), log_event=lambda topic, message: None)
    monkeypatch.setattr(host_actor, "get_worker", lambda: worker)
    made = HostActor(JOB, 0)
    yield made
    made.close()


def create(copy: int) -> do.CreateHost:
    return do.CreateHost(copy, 0, "worker", 1, 0, JOB.owned(0))


def test_a_late_word_of_the_run_before_does_not_reach_the_copy_in_its_place(actor: HostActor) -> None:
    actor.begin("first", 1, None)
    actor.begin("second", 2, None)
    assert actor._shard_host is not None
    actor.deliver(create(1))
    assert not actor._shard_host.state.serving
    actor.deliver(create(2))
    assert actor._shard_host.state.serving


def test_a_run_that_was_left_early_leaves_tables_that_can_be_read(actor: HostActor) -> None:
    actor.begin("first", 1, None)
    assert actor.on_shard(lambda shard, host: shard is not None, ())


def test_hosts_of_one_worker_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, taken = 1 << 30, 100 << 20
    worker = SimpleNamespace(
        address="tcp://127.0.0.1:1",
        security=Security(),
        log_event=lambda topic, message: None,
        memory_manager=SimpleNamespace(memory_limit=limit),
        monitor=SimpleNamespace(get_process_memory=lambda: taken),
    )
    monkeypatch.setattr(host_actor, "get_worker", lambda: worker)
    monkeypatch.setattr(host_actor, "_HERE", weakref.WeakSet())
    job = replace(JOB, memory_bytes=None, hosts=3)
    actors = [HostActor(job, host) for host in range(3)]
    for actor in actors:
        actor.address()
    memories = [actor._shard_host.shard.memory for actor in actors]  # type: ignore[union-attr]
    limits = [memory.limit_bytes for memory in memories if memory is not None]
    assert len(limits) == 3
    assert sum(limits) < 0.7 * limit
    assert max(limits) - min(limits) < 0.1 * max(limits)
    for actor in actors:
        actor.close()
