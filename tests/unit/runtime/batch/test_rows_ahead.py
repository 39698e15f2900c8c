"""Rows of several batches are read at once, and each batch is computed with its own."""

import threading
from typing import Any

import numpy as np
import pytest

import heterps as hps
from heterps import models
from heterps.errors import DataError
from heterps.runtime.batch.inference import infer_split

ROWS, BATCH, AT_ONCE = 22, 4, 3


@pytest.fixture(scope="module")
def session() -> Any:
    plan = hps.Plan.fused(models.dnn(slots=1, dense=0, dim=2, hidden=(3,)), batch_size=BATCH)
    with hps.launch(plan, engine="inline", metrics=[]) as started:
        for _ in started.train(data(), epochs=2):
            pass
        yield started


def data() -> hps.Dataset:
    ids = np.arange(ROWS, dtype="u8").reshape(-1, 1)
    return hps.arrays({"ids": ids, "y": (ids[:, 0] % 2).astype("f4")}, {"y": "label"})


def predicted(session: Any, reads: list[Any]) -> list[float]:
    (split,) = data().splits()
    found = infer_split(session.job, reads, data(), split, fetch={"p": "prediction"})
    assert found.samples == ROWS
    return list(np.asarray(found.fetched["p"]).tolist())


def test_reads_go_at_once_and_batches_stay_apart(session: Any) -> None:
    together = threading.Barrier(AT_ONCE, timeout=60)  # broken unless so many reads are under way
    begun = []

    def way() -> Any:
        answers: list[Any] = []  # a way has room for one answer: the last one is spoilt by the next

        def read(host: int, wanted: Any) -> Any:
            if any(map(len, wanted.ids.values())):
                begun.append(wanted)
                if len(begun) <= AT_ONCE:
                    together.wait()
                for old in answers:
                    for rows in old.out.values():
                        rows[...] = np.nan
                answers[:] = [wanted]
            return session.engine.read(host, wanted)

        return read

    alone = predicted(session, [session.engine.read])
    assert predicted(session, [way() for _ in range(AT_ONCE)]) == alone
    assert len(set(alone)) > ROWS // 2


def test_a_read_that_fails_is_told(session: Any) -> None:
    def broken(host: int, wanted: Any) -> Any:
        if any(map(len, wanted.ids.values())):
            raise DataError("the way is blocked")
        return session.engine.read(host, wanted)

    with pytest.raises(DataError, match="the way is blocked"):
        predicted(session, [session.engine.read, broken, session.engine.read])
