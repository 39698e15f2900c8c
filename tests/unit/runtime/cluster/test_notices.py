"""Trainings on a cluster tell its notice board how they go; its page is served by the scheduler's own HTTP server."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import dask
import pytest
from click.testing import CliRunner
from distributed import Client

import heterps as hps
from heterps.cli import main
from heterps.errors import RunError
from heterps.runtime.cluster.in_process import local_cluster
from heterps.runtime.cluster.notices import put_up_board, read_board, tell_board
from heterps.runtime.run.telling import telling
from heterps.testing.engine_contract import plan
from heterps.testing.small_model import data

pytestmark = pytest.mark.xdist_group("dask")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with local_cluster({"server": 1, "io": 1}) as client:
        put_up_board(client)
        yield client


def fetched(client: Client, path: str = "") -> tuple[str, str]:
    with urllib.request.urlopen(read_board(client)["page"] + path, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def runs(client: Client, name: str) -> list[Any]:
    return [run for run in read_board(client)["runs"] if run["name"] == name]


def until(look: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not look():  # the test's own limit ends it
        pause.wait(0.02)


def watch(client: Client, *words: str) -> str:
    result = CliRunner().invoke(main, ["watch", client.scheduler.address, *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_before_any_run_the_page_is_there_and_empty(client: Client) -> None:
    kind, page = fetched(client)
    assert kind == "text/html; charset=utf-8"
    assert "no run yet" in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", ""), "nothing is fetched from elsewhere"
    assert json.loads(fetched(client, "/state.json")[1])["runs"] == []
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetched(client, "/plan.svg?run=nobody")
    assert watch(client, "--once") == "no run yet\n"


def test_a_training_is_seen_while_it_goes_on_and_when_it_is_over(client: Client, tmp_path: Any) -> None:
    options = {"name": "ctr", "report_s": 0.01, "checkpoint": tmp_path / "cuts", "every_batches": 5}
    with hps.launch(plan(), client, **options) as session:
        for progress in session.train(data(), epochs=2, valid=data(200, seed=8)):
            if not progress.done:
                until(lambda: bool(runs(client, "ctr")))
                assert runs(client, "ctr")[0]["state"] == "training"
    (run,) = runs(client, "ctr")
    assert run["state"] == "done"
    latest = run["latest"]
    assert (latest["epoch"], latest["samples"]) == (2, 3000)
    assert set(latest["valid"]) == {"auc", "logloss"}
    assert {table["table"] for table in latest["tables"]} == {"vectors, wide", "dense parameters"}
    assert latest["tables"][0]["worker"] == "server-0"
    assert latest["tables"][0]["rows"] > 0
    assert set(latest["queues"]) == {"read ahead", "in flight", "at hosts"}
    assert any(event["kind"] == "cut" for event in run["events"])
    assert json.loads(fetched(client, "/state.json")[1])["runs"][0]["run"] == run["run"]
    kind, picture = fetched(client, f"/plan.svg?run={run['run']}")
    assert (kind, picture[:4]) == ("image/svg+xml; charset=utf-8", "<svg")
    assert watch(client, "--run", "ctr").startswith("ctr: done | epoch 2/2 | 3,000 samples | ")


def test_how_a_training_ended_is_told(client: Client) -> None:
    with hps.launch(plan(), client, name="left", report_s=0.01) as session:
        for _ in session.train(data(), epochs=50):
            break
    assert [(run["state"], run["words"]) for run in runs(client, "left")] == [
        ("left", "training was left before its end")
    ]
    about = {"name": "broken", "about": [], "picture": ""}
    with pytest.raises(RunError, match="no host is left"), telling(client, "broken-1", about):
        raise RunError("no host is left\nWhat happened: much")
    assert [(run["state"], run["words"]) for run in runs(client, "broken")] == [("failed", "RunError: no host is left")]


def test_a_driver_that_is_gone_is_told_and_watching_ends(client: Client) -> None:
    with Client(client.scheduler.address, set_as_default=False) as driver:
        said = {"name": "orphan", "driver": driver.id, "about": [], "picture": ""}
        driver.sync(tell_board, driver, "begin", "orphan-1", said)
        assert runs(client, "orphan")[0]["state"] == "training"
    until(lambda: runs(client, "orphan")[0]["state"] == "lost")
    assert watch(client, "--run", "orphan") == (
        "orphan: lost: its driver is gone; launch(resume=...) goes on from the last cut | no report yet\n"
    )


def test_nobody_is_told_where_that_is_not_wanted(client: Client) -> None:
    with dask.config.set({"heterps.watch": False}), hps.launch(plan(), client, name="quiet") as session:
        session.fit(data(200))
    assert runs(client, "quiet") == []


def test_watching_what_is_not_there_is_an_error_in_words() -> None:
    result = CliRunner().invoke(main, ["watch"])
    assert (result.exit_code, "which cluster?" in result.output) == (1, True)
    result = CliRunner().invoke(main, ["watch", "--once", "--forever"])
    assert (result.exit_code, "opposites" in result.output) == (1, True)
