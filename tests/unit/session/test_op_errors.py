"""An op that fails on a worker: the user hears of it at once, with op, stage, worker and cause."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client

import heterps as hps
from heterps.errors import OpError, RunError
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.workers.stage import StageService
from tests import raising

pytestmark = pytest.mark.xdist_group("dask")
PLACES = [(1, "stage 0 on worker io-"), (2, "stage 1 on worker compute-0"), (4, "stage 2 on worker compute-0")]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with local_cluster({"server": 1, "io": 2, "pull": 1, "compute": 1}) as client:
        yield client


def failed(plan: hps.Plan, client: Any, mode: str = "async", kind: type[Exception] = OpError) -> str:
    """Train and return the error's message, which must come soon."""
    raising.start_counting()
    with hps.launch(plan, client=client, mode=mode, report_s=0.1) as session:
        began = time.monotonic()
        with pytest.raises(kind) as caught:
            list(session.train(raising.data(), epochs=20))
        assert time.monotonic() - began < 5
    return str(caught.value)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize(("stages", "where"), PLACES)
def test_the_error_names_op_cause_stage_and_worker(
    client: Client, stages: int, where: str, way: str, mode: str
) -> None:
    error = failed(raising.plan(raising.graph(7, way), stages), client, mode)
    assert f"op 'bad' of kind 'tests.raising' failed in {way}: ZeroDivisionError: the sky fell; in {where}" in error
    assert error.count(" on worker ") == 1


def test_inference_names_them_too(client: Client) -> None:
    raising.start_counting()
    named = r"op 'bad' .* failed in forward: .*the sky fell; in worker io-"
    with hps.launch(raising.plan(raising.graph(3), 1), client=client) as session, pytest.raises(OpError, match=named):
        session.predict(raising.data())


def test_in_one_thread() -> None:
    raising.start_counting()
    named, plan = r"op 'bad' .*the sky fell; in this process", raising.plan(raising.graph(3), 1)
    with hps.launch(plan, engine="inline") as session, pytest.raises(OpError, match=named):
        list(session.train(raising.data()))


@pytest.mark.parametrize("stages", [2, 4])
def test_a_mistake_of_a_stage_itself_is_named(client: Client, stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr(StageService, "_outcome", broken)
    error = failed(raising.plan(raising.graph(1 << 60), stages), client, kind=RunError)
    assert re.fullmatch(r"stage \d on worker compute-0 at \S+ failed: AttributeError: no such thing", error)
