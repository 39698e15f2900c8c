"""A model behind HTTP: answers, limits, who may ask, counters, changing models; with a real process at the end."""

import asyncio
import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tornado.httpclient import AsyncHTTPClient, HTTPResponse

import heterps as hps
from heterps import ops
from heterps.cli import main
from heterps.data import Category, Number, Schema, dense, label, sparse
from heterps.data.columnar.tables_in_memory import frame
from heterps.errors import ServeError
from heterps.runtime.cluster.certificates import make_certificates
from heterps.serving.bodies import ARROW, LINES
from heterps.serving.server import ModelServer, ServerLimits, ServerLocks, is_loopback

FIELDS = Schema.of(sparse("ids", Category("city")), dense("x", Number("age")), label("y", Number("y")))
ROWS = [{"city": "Oslo", "age": 31}, {"city": "Rome", "age": None}, {"city": "new", "age": "7"}]
TOKEN = "a token of more than sixteen"


def graph() -> hps.Graph:
    ids, x = ops.input("ids", (1,), "uint64"), ops.input("x", (1,))
    h = ops.concat(ops.lookup(ids, table="t", dim=3), x, name="features")
    return hps.Graph(loss=ops.logloss(ops.dense(h, 1, name="out"), ops.input("y")), outputs={"both": h})


def train(session: hps.Session) -> None:
    cities = pd.DataFrame({"city": ["Oslo", "Rome"] * 20, "age": range(40), "y": [0, 1] * 20})
    session.fit(frame(cities, FIELDS))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    with hps.launch(hps.Plan.fused(graph(), batch_size=8), engine="inline") as session:
        train(session)
        session.export(folder / "export", onnx="no")
    return folder / "export"


Ask = Callable[..., Coroutine[Any, Any, HTTPResponse]]


def served(
    predictor: hps.Predictor, talk: Callable[[Ask, ModelServer], Coroutine[Any, Any, None]], **rest: Any
) -> None:
    """Serve in this process while ``talk`` asks."""

    async def both() -> None:
        server = ModelServer(predictor, **rest)
        port = server.listen()

        async def ask(path: str, body: Any = None, **options: Any) -> HTTPResponse:
            data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
            scheme = "https" if server.locks.cert else "http"
            return await AsyncHTTPClient(force_instance=True).fetch(
                f"{scheme}://127.0.0.1:{port}{path}",
                method=options.pop("method", "GET" if data is None else "POST"),
                body=data,
                raise_error=False,
                **options,
            )

        try:
            await talk(ask, server)
        finally:
            await server.close()

    asyncio.run(asyncio.wait_for(both(), 60))


def test_answers_are_the_predictors(exported: Path) -> None:
    predictor = hps.Predictor(exported)
    wanted = predictor(ROWS)

    async def talk(ask: Ask, server: ModelServer) -> None:
        for body in ({"rows": ROWS}, ROWS):
            answer = await ask("/predict", body)
            assert answer.headers["Content-Type"] == "application/json"
            found = json.loads(answer.body)
            assert found["version"] == predictor.version
            np.testing.assert_array_equal(np.float32(found["prediction"]), wanted)
        one = json.loads((await ask("/predict", ROWS[0])).body)
        np.testing.assert_allclose(one["prediction"], wanted[:1], rtol=1e-6)
        lines = "\n".join(map(json.dumps, ROWS)).encode()
        found = json.loads((await ask("/predict?fetch=both,prediction", lines, headers={"Content-Type": LINES})).body)
        assert np.shape(found["both"]) == (3, 4)
        table = pa.table({"city": ["Oslo", "Rome"], "age": [31, None]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        headers = {"Content-Type": ARROW, "Accept": ARROW}
        answer = await ask("/predict?fetch=both&fetch=prediction", bytes(sink.getvalue()), headers=headers)
        made = pa.ipc.open_stream(answer.body).read_all()
        np.testing.assert_array_equal(made["prediction"].to_numpy(), wanted[:2])
        assert made["both"].type == pa.list_(pa.float32(), 4)
        assert made.schema.metadata[b"version"].decode() == predictor.version
        assert json.loads((await ask("/")).body)["columns"] == ["city", "age"]
        assert json.loads((await ask("/health")).body) == {"status": "ok"}
        text = (await ask("/metrics")).body.decode()
        assert 'heterps_requests_total{path="/predict",code="200"} 5' in text
        assert "heterps_rows_total 12" in text
        assert 'heterps_predict_seconds_bucket{le="+Inf"} 5' in text
        assert f'heterps_model_info{{version="{predictor.version}"}} 1' in text

    served(predictor, talk)


def compressed() -> bytes:
    table = pa.table({"city": ["Oslo"] * 100, "age": [1] * 100})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_bad_requests_are_refused_with_the_reason(exported: Path) -> None:
    arrow = {"headers": {"Content-Type": ARROW}}
    cases: list[tuple[str, Any, dict[str, Any], int, str]] = [
        ("/predict", b"{", {}, 400, "the body is not JSON"),
        ("/predict", b"[" * 1500, {}, 400, "the body is not JSON"),
        ("/predict", {"rows": 5}, {}, 400, "rows are objects"),
        ("/predict", {"rows": []}, {}, 400, "there are no rows"),
        ("/predict", {"rows": ROWS, "fetch": 5}, {}, 400, "fetch is a name or a list of names"),
        ("/predict", {"rows": ROWS, "fetch": "boht"}, {}, 400, "nothing to fetch is called 'boht'"),
        ("/predict", [{"city": "Oslo"}], {}, 400, "the rows have no column 'age'"),
        ("/predict", [{"city": "Oslo", "age": "old"}], {}, 400, "row 1, column 'age': 'old' is not a number"),
        ("/predict", ROWS * 2, {}, 400, "6 rows in one request; this server takes 5"),
        ("/predict", b"x" * 5000, {}, 413, "5000 bytes in one request; this server takes 4000"),
        ("/predict", b"ARROW1 or not", arrow, 400, "no Arrow stream"),
        ("/predict", compressed(), arrow, 400, "the Arrow stream is compressed"),
        ("/predict", ROWS, {"headers": {"Content-Type": "text/csv"}}, 415, "text/csv: this server takes"),
        ("/predict", None, {}, 405, "no such method"),
        ("/preduct", ROWS, {}, 404, "there are GET /"),
        ("/predict", ROWS, {"headers": {"Host": "evil.example"}}, 403, "on this machine only, not 'evil.example'"),
        ("/reload", b"", {"headers": {"Origin": "https://evil.example"}}, 403, "on this machine only"),
    ]

    async def talk(ask: Ask, server: ModelServer) -> None:
        for path, body, options, code, says in cases:
            answer = await ask(path, body, **options)
            assert (answer.code, says in json.loads(answer.body)["error"]) == (code, True), (body, answer.body)

        async def endless(write: Callable[[bytes], Any]) -> None:
            for _ in range(60):
                await write(b" " * 100)

        answer = await ask("/predict", method="POST", body_producer=endless)  # chunked: nobody says how much will come
        assert answer.code == 413
        assert (await ask("/predict", ROWS)).code == 200

    served(hps.Predictor(exported), talk, limits=ServerLimits(bytes=4000, rows=5))


class Held(hps.Predictor):
    """A predictor whose answers wait until they are let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.let_go, self.begun = threading.Event(), threading.Semaphore(0)

    def answer(self, *args: Any) -> Any:
        self.begun.release()
        assert self.let_go.wait(60)
        return super().answer(*args)


def test_more_than_the_queue_takes_and_what_takes_too_long_is_refused(exported: Path) -> None:
    predictor = Held(exported)

    async def talk(ask: Ask, server: ModelServer) -> None:
        waiting = [asyncio.create_task(ask("/predict", ROWS)) for _ in range(3)]
        await asyncio.to_thread(predictor.begun.acquire)
        while server.open_requests < 3:
            await asyncio.sleep(0)
        refused = await ask("/predict", ROWS)
        assert (refused.code, refused.headers["Retry-After"]) == (503, "1")
        assert "3 requests are open, which is the most" in json.loads(refused.body)["error"]
        assert "heterps_waiting 2\n" in (await ask("/metrics")).body.decode()
        late = [await each for each in waiting]
        assert {(each.code, "no answer within 0.3 s" in each.body.decode()) for each in late} == {(503, True)}
        assert server.open_requests == 3  # they still take their places
        predictor.let_go.set()
        while server.open_requests:
            await asyncio.sleep(0)
        assert (await ask("/predict", ROWS)).code == 200

    try:
        served(predictor, talk, limits=ServerLimits(seconds=0.3, queue=3, threads=1))
    finally:
        predictor.let_go.set()


def test_an_error_of_ours_tells_nothing_and_is_logged(exported: Path, caplog: pytest.LogCaptureFixture) -> None:
    predictor = hps.Predictor(exported)
    predictor.answer = lambda *args: 1 / 0  # type: ignore[method-assign]

    async def talk(ask: Ask, server: ModelServer) -> None:
        answer = await ask("/predict", ROWS)
        assert (answer.code, json.loads(answer.body)["error"]) == (500, "this went wrong here; see the log")

    with caplog.at_level(logging.ERROR):
        served(predictor, talk)
    assert "ZeroDivisionError" in caplog.text


def test_reload_changes_the_model_and_says_why_not(tmp_path: Path) -> None:
    with hps.launch(hps.Plan.fused(graph(), batch_size=8), engine="inline") as session:
        train(session)
        session.export(tmp_path / "a", kind="changes", onnx="no")
        predictor = hps.Predictor(tmp_path / "a")
        first = predictor.version

        async def talk(ask: Ask, server: ModelServer) -> None:
            same = json.loads((await ask("/reload", b"")).body)
            assert same == {"changed": False, "version": first}
            train(session)
            session.export(tmp_path / "a", kind="changes", onnx="no")
            changed = json.loads((await ask("/reload", b"")).body)
            assert changed["changed"]
            assert changed["version"] != first
            wanted = session.predict(ROWS)
            found = json.loads((await ask("/predict", ROWS)).body)
            np.testing.assert_allclose(found["prediction"], wanted, rtol=1e-6)
            assert found["version"] == changed["version"]
            broken = session.export(tmp_path / "a", onnx="no")
            (broken / "dense.parquet").write_bytes(b"")
            refused = await ask("/reload", b"")
            assert refused.code == 409
            assert f"goes on with {changed['version']}" in json.loads(refused.body)["error"]
            session.export(tmp_path / "a", onnx="no")
            following = asyncio.create_task(server.follow(0.001))
            while predictor.version == changed["version"]:
                await asyncio.sleep(0.001)
            following.cancel()
            text = (await ask("/metrics")).body.decode()
            for outcome in ("same", "changed", "failed"):
                assert f'heterps_reloads_total{{outcome="{outcome}"}}' in text

        served(predictor, talk)


def test_a_token_is_asked_for(exported: Path) -> None:
    async def talk(ask: Ask, server: ModelServer) -> None:
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            for path, body in (("/predict", ROWS), ("/metrics", None), ("/reload", b""), ("/", None)):
                answer = await ask(path, body, headers=header)
                assert (answer.code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert (await ask("/health")).code == 200
        bearer = {"Authorization": f"Bearer {TOKEN}", "Host": "models.example"}
        assert (await ask("/predict", ROWS, headers=bearer)).code == 200

    served(hps.Predictor(exported), talk, locks=ServerLocks(token=TOKEN))


@pytest.mark.parametrize(
    ("host", "locks", "says"),
    [
        ("0.0.0.0", ServerLocks(), "can be reached from other machines"),
        ("::", ServerLocks(token=TOKEN), "can be reached from other machines"),
        ("models.example", ServerLocks("cert", "key"), "can be reached from other machines"),
        ("127.0.0.1", ServerLocks("cert"), "a certificate and its key"),
    ],
    ids=range(4),
)
def test_other_machines_need_tls_and_a_token(host: str, locks: ServerLocks, says: str) -> None:
    with pytest.raises(ServeError, match=says):
        locks.check(host)
    assert TOKEN not in repr(locks)


def test_loopback_is_known_by_name_and_number() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.evil", "")))


def test_mistakes_at_the_command_line(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("secret")
    for words, says in (
        (["--threads", "0"], "must be greater than 0"),
        (["--token-file", str(tmp_path / "short")], "a token has 16 printable ASCII characters or more"),
        (["--host", "0.0.0.0"], "can be reached from other machines"),
        (["--tls-cert", "no", "--tls-key", "no"], "cannot use the certificate no"),
    ):
        done = CliRunner().invoke(main, ["serve", str(exported), "--port", "0", *words])
        assert (done.exit_code, says in done.output) == (1, True), done.output
        assert "secret" not in done.output
    assert "is no exported model" in CliRunner().invoke(main, ["serve", str(tmp_path)]).output


def test_the_command_serves_over_tls_until_it_is_told_to_end(exported: Path, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "certs", ["127.0.0.1"])
    (tmp_path / "token").write_text(TOKEN + "\n")
    words = [sys.executable, "-m", "heterps", "serve", str(exported), "--port", "0", "--host", "127.0.0.1"]
    words += ["--token-file", str(tmp_path / "token")]
    words += ["--tls-cert", str(certificates.certificate("scheduler")), "--tls-key", str(certificates.key("scheduler"))]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"serving 00000001-\w{8} on (https://127.0.0.1:\d+)\n", line)
        assert found, line

        async def ask() -> HTTPResponse:
            options = {"ca_certs": str(certificates.ca), "headers": {"Authorization": f"Bearer {TOKEN}"}}
            return await AsyncHTTPClient().fetch(f"{found[1]}/predict", method="POST", body=json.dumps(ROWS), **options)

        answer = json.loads(asyncio.run(ask()).body)
        np.testing.assert_array_equal(np.float32(answer["prediction"]), hps.Predictor(exported)(ROWS))
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
