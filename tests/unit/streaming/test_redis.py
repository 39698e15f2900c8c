"""Redis Streams as a source: a real server, entries that come while the stream runs, a stream that is lost."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heterps.errors import CheckpointError, DataError
from heterps.streaming import Nothing, Portion, RedisStream
from tests.unit.streaming.small_stream import HEAD, logged, rows, run, write_pass

redis = pytest.importorskip("redis")
needs_server = [
    pytest.mark.full,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="needs redis-server, Debian's package"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server of our own that keeps nothing on disk."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with open(folder / "log.txt", "w") as log, subprocess.Popen(words, stdout=log, stderr=log) as server:
        try:
            _wait_for(redis.Redis(port=port), server)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait(30)


def _wait_for(client: Any, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    with client:
        while server.poll() is None and time.monotonic() < until:
            try:
                client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.05)
    raise AssertionError("the server does not answer")


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with redis.Redis.from_url(url) as found:
        found.flushall()
        yield found


def entries(tmp_path: Path, seed: int, count: int = 60) -> list[dict[str, str]]:
    lines = write_pass(tmp_path / "rows.csv", seed, count).read_text().splitlines()[1:]
    return [dict(zip(HEAD.split(","), line.split(","), strict=True)) for line in lines]


DAY = 86_400_000


def put(client: Any, tmp_path: Path, days: int = 2, count: int = 60) -> None:
    """Add entries of some days; their ids say when."""
    for day in range(days):
        for n, entry in enumerate(entries(tmp_path, day, count)):
            client.xadd("clicks", entry, id=f"{1_793_491_200_000 + day * DAY + n}-0")


class LostError(Exception):
    """Ends a stream in the middle of its work."""


class TestServer:
    pytestmark = needs_server

    def test_entries_become_passes_by_day(self, url: str, client: Any, tmp_path: Path) -> None:
        put(client, tmp_path)
        reports = run(RedisStream(url, "clicks", most=40), tmp_path / "out")
        assert [(each.day, each.rows) for each in reports] == [
            *(("20261101", 40), ("20261101", 20), ("20261102", 40), ("20261102", 20))
        ]
        assert "day 20261101 ended" in reports[2].events
        (group,) = client.xinfo_groups("clicks")
        assert (group["name"], group["lag"]) == (b"heterps", 0)
        assert client.xlen("clicks") == 120

    def test_a_lost_stream_goes_on_with_the_same_portions(self, url: str, client: Any, tmp_path: Path) -> None:
        put(client, tmp_path)
        run(RedisStream(url, "clicks", most=50), tmp_path / "straight", checkpoint_every=2)
        client.delete("clicks")
        put(client, tmp_path, days=1)

        def read(paths: Any) -> Any:
            raise LostError

        with pytest.raises(LostError):  # of the first day 50 and 10 entries are noted, then there are more
            run(RedisStream(url, "clicks", most=50), tmp_path / "out", checkpoint_every=2, read=read)
        put_again = entries(tmp_path, 1)
        for n, entry in enumerate(put_again):
            client.xadd("clicks", entry, id=f"{1_793_491_200_000 + DAY + n}-0")
        run(RedisStream(url, "clicks", most=50), tmp_path / "out", checkpoint_every=2)
        assert logged(tmp_path / "out") == logged(tmp_path / "straight")
        assert rows(tmp_path / "out") == rows(tmp_path / "straight")

    def test_what_a_checkpoint_holds_is_trimmed_and_what_others_trim_is_missed(
        self, url: str, client: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        put(client, tmp_path, days=1)
        run(RedisStream(url, "clicks", most=40, trim=True), tmp_path / "out")
        assert client.xlen("clicks") == 0
        for n, entry in enumerate(entries(tmp_path, 5)):
            client.xadd("clicks", entry, id=f"{1_793_491_200_000 + 3 * DAY + n}-0")
        client.xtrim("clicks", maxlen=10, approximate=False)
        (report,) = run(RedisStream(url, "clicks"), tmp_path / "out")
        assert report.rows == 10
        assert caplog.text.count("50 entries behind 1793491200059-0 were deleted before they were trained on") == 1
        assert run(RedisStream(url, "clicks"), tmp_path / "out") == []
        assert caplog.text.count("were deleted") == 1

    def test_lines_in_a_field(self, url: str, client: Any, tmp_path: Path) -> None:
        for line in write_pass(tmp_path / "rows.csv", 1, 30).read_text().splitlines()[1:]:
            client.xadd("lines", {"line": line})
        client.xadd("lines", {"other": "x"})
        source, folder = RedisStream(url, "lines", field="line", least=20), tmp_path
        portion = source.poll(None)
        assert isinstance(portion, Portion)
        with pytest.raises(DataError, match="no field 'line'; it has other"):
            source.fetch(portion, folder)
        client.xdel("lines", portion.span[1])
        (path,) = source.fetch(portion, folder)
        assert Path(path).read_text() == "".join((tmp_path / "rows.csv").read_text().splitlines(keepends=True)[1:])
        source.close()

    def test_too_few_entries_are_waited_for(self, url: str, client: Any, tmp_path: Path) -> None:
        put(client, tmp_path, days=1, count=5)
        source = RedisStream(url, "clicks", least=6)
        assert isinstance(source.poll(None), Nothing)
        put_more = entries(tmp_path, 2, 1)
        client.xadd("clicks", put_more[0], id=f"{1_793_491_200_000 + 99}-0")
        assert isinstance(source.poll(None), Portion)
        source.close()


def test_a_server_that_is_not_there_is_named() -> None:
    source = RedisStream("redis://127.0.0.1:1/0", "clicks")
    with pytest.raises(DataError, match=r"cannot read the stream clicks at redis://127\.0\.0\.1:1/0"):
        source.poll(None)
    for wrong in ({"days": {}}, 3, "yesterday", ["x", 1]):
        with pytest.raises(CheckpointError, match="no position in a Redis Stream"):
            source.poll(wrong)
    with pytest.raises(DataError, match="cannot read what"):
        RedisStream("what://", "clicks")
