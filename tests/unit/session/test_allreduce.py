"""Dense parameters that every worker holds and steps by the sum of all gradients: the bits of tables, in every use."""

from functools import partial
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

import heterps as hps
from heterps import ops
from heterps.errors import PlanError
from heterps.runtime.workers.group_member import GroupMember
from heterps.tables.snapshots.snapshot import Snapshots
from heterps.testing.engine_contract import plan, same, tables, trained
from heterps.testing.small_model import columns, data

pytestmark = pytest.mark.xdist_group("dask")

ALL = {"fc": "allreduce", "out": "allreduce"}
HYBRID = {"fc": "allreduce", "*": "table"}
PIECES = {"fc.weight": "allreduce", "out.weight": "allreduce"}  # that do not touch
inline = partial(hps.launch, engine="inline", mode="sync")


def by_tables(epochs: int = 1, **rest: Any) -> Any:
    with inline(plan(lanes=3), **rest) as session:
        return trained(session, epochs)


@pytest.mark.parametrize(
    ("workers", "hosts", "parameters"),
    [
        (0, 2, PIECES),
        (2, 2, ALL),
        (3, 1, HYBRID),
        pytest.param(0, 1, ALL, marks=pytest.mark.full),
        pytest.param(1, 1, HYBRID, marks=pytest.mark.full),
    ],
    ids=["inline pieces", "two", "three hybrid", "inline", "one"],
)
def test_any_number_of_workers_gives_the_bits_of_tables(workers: int, hosts: int, parameters: Any) -> None:
    made = plan(lanes=3, shard_hosts=hosts, workers=max(workers, 1))
    with hps.launch(made, engine="dask" if workers else "inline", mode="sync", parameters=parameters) as session:
        assert same(trained(session, epochs=2), by_tables(epochs=2))


def image_like() -> hps.Graph:
    """Nothing but dense layers: batch statistics, and a rule with momentum and decay, as in image models."""
    x, y = ops.input("x", shape=(2,)), ops.input("y")
    h = ops.relu(ops.batch_norm(ops.dense(x, 8, name="fc"), name="norm"), name="hidden")
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), y, name="loss"))


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.full), 2])
def test_running_statistics_and_momentum_agree(workers: int) -> None:
    rule = hps.Momentum(lr=0.05, momentum=0.9, l2=1e-4)
    rows = {name: column for name, column in columns(600).items() if name != "ids"}
    found = []
    for count, parameters in ((0, {}), (workers, {"*": "allreduce"})):
        made = hps.Plan.fused(image_like(), batch_size=32, workers=max(count, 1), lanes=4)
        engine = "dask" if count else "inline"
        with hps.launch(made, engine=engine, mode="sync", dense=rule, parameters=parameters) as session:
            session.fit(hps.arrays(rows), epochs=2)
            shards = session.engine.each_shard(_dense)
            found.append((shards[0], session.predict(hps.arrays(rows))))
    (first, seen), (second, also_seen) = found
    assert np.array_equal(first, second)
    assert np.array_equal(seen, also_seen)


def _dense(shard: Any, host: int) -> Any:
    return np.concatenate([shard.dense.values, shard.dense.slots])


def test_what_is_evaluated_while_it_trains_is_what_was_trained() -> None:
    with inline(plan(), parameters=ALL, report_s=0.0) as session:
        seen = [_read(session)]
        seen += [_read(session) for progress in session.train(data()) if 2 <= progress.batches <= 4]
    assert len(seen) > 1
    assert not any(np.array_equal(one, seen[0]) for one in seen[1:])


def _read(session: hps.Session) -> Any:
    """Evaluate, and return the dense parameters that hosts had for it."""
    tables(session)
    return session.engine.each_shard(_dense)[0]


def test_leaving_the_loop_keeps_what_was_trained() -> None:
    """As many batches as were counted, and no others, are in rows and in dense parameters alike."""
    whole = {name: column[:640] for name, column in columns().items()}
    with inline(plan(), parameters=ALL, report_s=0.0) as session:
        for progress in session.train(hps.arrays(whole).shuffle("none")):
            if progress.batches >= 2:
                break
        rows = 64 * session.engine.counts().batches  # type: ignore[attr-defined]
        left = tables(session)
    assert 0 < rows < 640
    with inline(plan()) as session:
        session.fit(hps.arrays({name: column[:rows] for name, column in whole.items()}).shuffle("none"))
        assert same(left, tables(session))


@pytest.mark.parametrize("ways", [(ALL, {}), ({}, HYBRID)], ids=["to tables", "from tables"])
def test_a_run_goes_on_from_a_cut_by_another_way(ways: tuple[Any, Any], tmp_path: Path) -> None:
    first, second = ways
    with inline(plan(lanes=3), parameters=first, checkpoint=tmp_path, every_batches=5, report_s=0.0) as session:
        for _ in session.train(data(), epochs=2):
            if Snapshots(tmp_path / "checkpoint").generations():
                break
    with inline(plan(lanes=3), parameters=second, resume=tmp_path) as session:
        assert same(trained(session, epochs=2), by_tables(epochs=2))


def test_a_second_training_goes_on_from_the_first() -> None:
    with inline(plan(lanes=3), parameters=ALL) as session:
        trained(session)
        assert same(trained(session), by_tables(epochs=2))


def test_what_cannot_be_reduced_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match=r"'fc.weight' is all-reduced, which adds the lanes.*use mode 'sync'"):
        hps.launch(plan(), engine="inline", mode="async", parameters=ALL)


def test_buckets_go_out_while_backward_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """In small buckets almost all of a gradient has arrived before its push, and pushes bring nothing more."""
    ahead: list[bool] = []
    good = GroupMember._has_all
    monkeypatch.setattr(
        GroupMember, "_has_all", lambda self, push, member: ahead.append(good(self, push, member)) or ahead[-1]
    )
    made = plan(lanes=3, workers=2)
    with (
        dask.config.set({"heterps.bucket": "64B"}),
        hps.launch(made, engine="dask", mode="sync", parameters=ALL) as session,
    ):
        found = trained(session)
    assert sum(ahead) > 10  # the others are words without a gradient
    assert same(found, by_tables())


@pytest.mark.full
def test_backups_of_hosts_have_what_the_group_gave_them() -> None:
    made = plan(lanes=3, workers=2, shard_hosts=2)
    with hps.launch(made, engine="dask", mode="sync", replicas=2, parameters=ALL) as session:
        assert same(trained(session, epochs=2), by_tables(epochs=2))
