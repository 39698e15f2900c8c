"""A predictor behind HTTP, on Tornado: the loop reads and answers, a few threads compute.

Requests are bounded in bytes, rows, time and number; what is beyond is refused at once and says why. Without TLS and a
token it listens on this machine only.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler, stream_request_body

from heterps.errors import HeterpsError, ServeError
from heterps.serving.bodies import ARROW, JSON, LINES, answer_arrow, answer_json, asked
from heterps.serving.counters import ServerCounters
from heterps.serving.predictor import Predictor

__all__ = ["ModelServer", "ServerLimits", "ServerLocks"]

_log = logging.getLogger("heterps")
_MIB = 1 << 20
_ENDLESS = 1 << 62
_CURL = "application/x-www-form-urlencoded"  # what curl calls any text: taken for JSON
_HEADERS = {401: ("WWW-Authenticate", "Bearer"), 503: ("Retry-After", "1")}
_WORDS = {400: "bad request", 401: "unauthorized", 405: "there is no such method here", 503: "try again later"}


@dataclass(frozen=True)
class ServerLimits:
    """How much a server takes on.

    Parameters
    ----------
    bytes, rows
        Of one request.
    seconds
        From its first byte to its answer.
    queue
        Requests that are computed or wait for it; one more is refused.
    threads
        That compute.
    """

    bytes: int = 8 * _MIB
    rows: int = 10_000
    seconds: float = 10.0
    queue: int = 64
    threads: int = 2


@dataclass(frozen=True)
class ServerLocks:
    """Who may ask: certificate and key (PEM files) for TLS, and the token that every request must bear."""

    cert: str | None = None
    key: str | None = None
    token: str | None = field(default=None, repr=False)

    def check(self, host: str) -> None:
        """Refuse to listen to other machines without TLS and a token."""
        if bool(self.cert) != bool(self.key):
            raise ServeError("TLS takes a certificate and its key: give both")
        if not is_loopback(host) and not (self.cert and self.token):
            raise ServeError(
                f"{host} can be reached from other machines: give a certificate, its key and a token, or listen on "
                "127.0.0.1"
            )

    def ssl(self) -> ssl.SSLContext | None:
        """Return TLS as the server takes it."""
        if not self.cert:
            return None
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            made.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ServeError(f"cannot use the certificate {self.cert} with the key {self.key}: {error}") from error
        return made


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    bare = host.strip("[]")
    if bare == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


class ModelServer:
    """Serves one exported model.

    Parameters
    ----------
    predictor
        What answers.
    limits, locks
        How much, and for whom.
    """

    def __init__(
        self, predictor: Predictor, limits: ServerLimits | None = None, locks: ServerLocks | None = None
    ) -> None:
        self.predictor = predictor
        self.limits, self.locks = limits or ServerLimits(), locks or ServerLocks()
        self.counters = ServerCounters()
        self.open_requests = 0  # computed or waiting; changed in the loop only
        self.computing = 0
        self._threads = ThreadPoolExecutor(self.limits.threads, "heterps-serve")
        self._http: HTTPServer | None = None

    def listen(self, host: str = "127.0.0.1", port: int = 0, *, reuse_port: bool = False) -> int:
        """Start answering in the running loop; return the port."""
        self.locks.check(host)
        tls = self.locks.ssl()
        try:
            sockets = bind_sockets(port, host, reuse_port=reuse_port)
        except OSError as error:
            raise ServeError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        seconds, most = self.limits.seconds, self.limits.bytes
        self._http = HTTPServer(
            self._application(),
            ssl_options=tls,
            max_body_size=most,
            max_buffer_size=most + _MIB,
            max_header_size=1 << 16,
            body_timeout=seconds,
            idle_connection_timeout=60.0,
        )
        self._http.add_sockets(sockets)
        return int(sockets[0].getsockname()[1])

    def _application(self) -> Application:
        rest = {"server": self}
        paths = {"/": _About, "/health": _Health, "/metrics": _Metrics, "/predict": _Predict, "/reload": _Reload}
        handlers = [(path, handler, rest) for path, handler in paths.items()]
        return Application(
            handlers, default_handler_class=_Missing, default_handler_args=rest, log_function=lambda _: None
        )

    async def compute(self, work: Any, *args: Any) -> Any:
        """Run in a thread, unless too many wait; give up waiting after the limit."""
        if self.open_requests >= self.limits.queue:
            raise _RefusedError(503, f"{self.open_requests} requests are open, which is the most")
        self.open_requests += 1
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._run, work, *args)
        running.add_done_callback(self._done)  # also one that nobody waits for any more takes its place until it ends
        try:
            return await asyncio.wait_for(asyncio.shield(running), self.limits.seconds)
        except TimeoutError:
            raise _RefusedError(503, f"no answer within {self.limits.seconds:g} s") from None

    def _run(self, work: Any, *args: Any) -> Any:
        self.computing += 1
        try:
            return work(*args)
        finally:
            self.computing -= 1

    def _done(self, running: Any) -> None:
        self.open_requests -= 1
        if not running.cancelled():
            running.exception()  # who gave up waiting does not look at it

    def reload(self) -> bool:
        """Change to the newest export; count what came of it."""
        try:
            changed = self.predictor.reload()
        except HeterpsError:
            self.counters.reloaded("failed")
            raise
        self.counters.reloaded("changed" if changed else "same")
        return changed

    async def follow(self, every_s: float) -> None:
        """Look for a newer export again and again; one that cannot be used is logged once and passed over."""
        said = ""
        while True:
            await asyncio.sleep(every_s)
            try:
                if await asyncio.get_running_loop().run_in_executor(self._threads, self.reload):
                    _log.info("serving %s", self.predictor.version)
                said = ""
            except HeterpsError as error:
                if str(error) != said:
                    _log.warning("goes on with %s: %s", self.predictor.version, error)
                said = str(error)

    async def close(self) -> None:
        """Take no more requests, finish those that are open, end."""
        if self._http is not None:
            self._http.stop()
            try:
                async with asyncio.timeout(self.limits.seconds):
                    while self.open_requests:
                        await asyncio.sleep(0.01)
                    await self._http.close_all_connections()
            except TimeoutError:
                _log.warning("%d requests were cut off", self.open_requests)
        self._threads.shutdown(wait=False, cancel_futures=True)


class _RefusedError(HTTPError):
    """An answer that says why there is none."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code, reason=_WORDS.get(code, "refused"))
        self.why = why


class _Answering(RequestHandler):
    """What all paths share: who may ask, errors as JSON, counting."""

    counted = "other"

    def initialize(self, server: ModelServer) -> None:
        self.server, self.began, self.rows = server, time.perf_counter(), 0

    def prepare(self) -> None:
        token = self.server.locks.token
        if token is None:
            self._check_local()
        elif not hmac.compare_digest(self._borne().encode(), token.encode()):
            raise _RefusedError(401, "this server wants a token: Authorization: Bearer TOKEN")

    def _check_local(self) -> None:
        """Answer nobody else's page in a browser of this machine: it can reach us, under our name or another."""
        origin = urlsplit(self.request.headers.get("Origin", "")).hostname or "localhost"
        for name in (self.request.host_name, origin):
            if not is_loopback(name):
                raise _RefusedError(403, f"this server answers on this machine only, not {name!r}")

    def _borne(self) -> str:
        kind, _, borne = self.request.headers.get("Authorization", "").partition(" ")
        return borne.strip() if kind.lower() == "bearer" else ""

    def write_error(self, status_code: int, **details: Any) -> None:
        error = details.get("exc_info", (None, None, None))[1]
        why = (
            error.why
            if isinstance(error, _RefusedError)
            else _WORDS.get(status_code, "this went wrong here; see the log")
        )
        if status_code in _HEADERS:
            self.set_header(*_HEADERS[status_code])
        self.set_header("Content-Type", JSON)
        self.finish(json.dumps({"error": why}))

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, HTTPError):
            _log.error("%s failed", self.request.path, exc_info=(kind, error, trace))

    def on_finish(self) -> None:
        self.server.counters.answered(self.counted, self.get_status(), time.perf_counter() - self.began, self.rows)

    def set_default_headers(self) -> None:
        self.clear_header("Server")


class _Missing(_Answering):
    def prepare(self) -> None:
        super().prepare()
        raise _RefusedError(404, "there are GET /, /health, /metrics, POST /predict and /reload")


class _About(_Answering):
    counted = "/"

    def get(self) -> None:
        """Say what is served."""
        model = self.server.predictor.model
        wanted = model.wanted("prediction")
        sources = list(wanted.features.sources) if wanted.features else list(wanted.columns)
        self.write({"version": model.version, "columns": sources, "outputs": ["prediction", *model.graph.outputs]})


class _Health(_Answering):
    counted = "/health"

    def prepare(self) -> None:
        """Whoever reaches this may ask: it tells nothing but that it lives."""

    def get(self) -> None:
        """Say that it lives."""
        self.write({"status": "ok"})


class _Metrics(_Answering):
    counted = "/metrics"

    def get(self) -> None:
        """Return counters as Prometheus text."""
        server = self.server
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        waiting = max(0, server.open_requests - server.computing)
        self.write(server.counters.text(server.predictor.version, waiting, server.computing))


class _Reload(_Answering):
    counted = "/reload"

    async def post(self) -> None:
        """Change to the newest export."""
        try:
            changed = await self.server.compute(self.server.reload)
        except HeterpsError as error:
            raise _RefusedError(409, f"goes on with {self.server.predictor.version}: {error}") from error
        self.write({"changed": changed, "version": self.server.predictor.version})


@stream_request_body
class _Predict(_Answering):
    counted = "/predict"

    def prepare(self) -> None:
        """Refuse what is too large before it is read."""
        self._body, self._size = bytearray(), 0
        self.request.connection.set_max_body_size(_ENDLESS)  # what is too much is not kept
        super().prepare()
        length = self.request.headers.get("Content-Length", "0")
        self._check_size(int(length) if length.isdigit() else 0)

    def _check_size(self, size: int) -> None:
        if size > self.server.limits.bytes:
            raise _RefusedError(413, f"{size} bytes in one request; this server takes {self.server.limits.bytes}")

    def data_received(self, chunk: bytes) -> None:
        """Gather the body, as far as it will be looked at."""
        self._size += len(chunk)
        if self._size <= self.server.limits.bytes:
            self._body += chunk

    async def post(self) -> None:
        """Score rows."""
        self._check_size(self._size)
        kind = self.request.headers.get("Content-Type", JSON).partition(";")[0].strip().lower()
        if kind not in (JSON, LINES, ARROW, _CURL):
            raise _RefusedError(415, f"{kind}: this server takes {JSON}, {LINES} and {ARROW}")
        wants_arrow = ARROW in self.request.headers.get("Accept", "")
        fetch = tuple(name for text in self.get_query_arguments("fetch") for name in text.split(",") if name)
        try:
            made = await self.server.compute(self._scored, bytes(self._body), kind, fetch, wants_arrow)
        except HeterpsError as error:
            raise _RefusedError(400, str(error)) from error
        self.rows, body = made
        self.set_header("Content-Type", ARROW if wants_arrow else JSON)
        self.write(body)

    def _scored(self, body: bytes, kind: str, fetch: tuple[str, ...], wants_arrow: bool) -> tuple[int, bytes]:
        """Run in a thread: from the bytes of a request to those of its answer."""
        found = asked(body, kind, fetch, self.server.limits.rows)
        values, version = self.server.predictor.answer(found.rows, found.fetch)
        return found.size, (answer_arrow if wants_arrow else answer_json)(values, version)
