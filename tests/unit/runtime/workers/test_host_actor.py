"""A host actor between runs, and words that come late."""

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
