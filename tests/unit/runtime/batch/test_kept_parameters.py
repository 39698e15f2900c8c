"""Dense parameters asked for once in some batches: which batches ask, what others are computed from."""

import numpy as np
import pytest

import heterps as hps
from heterps.data import Batch
from heterps.protocol import BatchKey
from heterps.runtime.batch.batch_work import BatchWork
from heterps.runtime.batch.flat_part import FlatPart
from heterps.runtime.batch.kept_parameters import KeptParameters
from heterps.runtime.batch.model import Model
from heterps.runtime.batch.payload import Pulled
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data, graph

PARTS = [FlatPart([slice(0, 2), slice(3, 4)]), FlatPart([slice(2, 3)])]


def work(moment: int, n: int = 1) -> BatchWork:
    batch = Batch(BatchKey(0, 0, n), 1, {})
    return BatchWork(np.zeros(4, np.float32), np.zeros(4, np.float32), batch=batch, moment=moment)


def came(kept: KeptParameters, moment: int, value: float) -> None:
    for host, part in enumerate(PARTS):
        kept.take(work(moment), host, Pulled({}, {}, 1, np.full(part.size, value + host, np.float32)))


def asking(kept: KeptParameters, *moments: int) -> list[int]:
    return [n for n in moments if kept.asks(work(n), 0)]  # none of which begins a push


def test_batches_ask_until_something_came_then_those_that_begin_a_push() -> None:
    kept = KeptParameters(4, PARTS)
    assert asking(kept, 1, 2, 3) == [1, 2, 3]
    came(kept, 3, 7.0)
    assert [n for n in range(8) if kept.asks(work(4, n), 0)] == [0, 4]
    assert asking(kept, *range(4, 13)) == [11, 12], "at the end what came is too old"


def test_a_batch_is_computed_with_what_came_last_of_every_host() -> None:
    kept = KeptParameters(4, PARTS)
    came(kept, 5, 7.0)
    came(kept, 2, 1.0)  # late
    batch = work(6)
    kept.fill(batch)
    assert batch.dense.tolist() == [7.0, 7.0, 8.0, 7.0]


@pytest.mark.parametrize(
    ("attempt", "terms", "asks"),
    [(2, (1, 1), []), (2, (2, 2), [7]), (1, (1, 1), [7])],
    ids=["goes on", "a return to a cut", "another run"],
)
def test_nothing_that_came_counts_where_hosts_may_have_another_state(
    attempt: int, terms: tuple[int, int], asks: list[int]
) -> None:
    kept = KeptParameters(4, PARTS)
    kept.enter(1, (1, 1))
    assert asking(kept, 6) == [6]
    came(kept, 6, 7.0)
    kept.enter(attempt, terms)
    assert asking(kept, 7) == asks


def trained(mode: str) -> tuple[int, int, float]:
    with hps.launch(plan(shard_hosts=2), engine="inline", mode=mode, sparse=hps.SGD(lr=0.5)) as session:
        last = list(session.train(data(), epochs=6))[-1]
        return last.samples, last.exchange.received_bytes, session.evaluate(data(seed=8))["auc"]


def test_dense_parameters_of_merged_pushes_travel_once_a_push() -> None:
    samples, received, _ = trained("async:2")
    merged, less, auc = trained("async:2:8")
    assert merged == samples == 6 * 1500
    dense = 4 * 6 * 24 * Model(graph(4, 0.0)).layout.size  # of 24 batches in each of six passes
    assert received - less > 0.7 * dense, "seven of eight times, but for the first batches"
    assert auc > 0.9
