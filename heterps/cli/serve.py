"""``heterps serve``: an exported model behind HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from pathlib import Path

import click

from heterps.errors import ServeError
from heterps.serving.predictor import Predictor
from heterps.serving.server import ModelServer, ServerLimits, ServerLocks
from heterps.tables.snapshots.disk import read_small

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps serve export/ --port 8080
  curl localhost:8080/predict -d '{"rows": [{"city": "Oslo", "age": 31}]}'
  heterps serve export/ --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --token-file token
"""
_LIMITS = ServerLimits()
_MOST_TOKEN = 4096  # bytes of a token's file


@click.command(short_help="Serve an exported model over HTTP.", epilog=_EPILOG)
@click.argument("path", metavar="PATH")
@click.option("--host", default="127.0.0.1", show_default=True, help="Others than loopback need TLS and a token.")
@click.option("--port", default=8080, show_default=True, help="0 takes any; the line that is printed names it.")
@click.option("--engine", type=click.Choice(["numpy", "onnx"]), default="numpy", show_default=True, help="Dense part.")
@click.option("--threads", default=_LIMITS.threads, show_default=True, help="That compute.")
@click.option("--queue", default=_LIMITS.queue, show_default=True, help="Open requests; one more gets 503.")
@click.option("--max-bytes", default=_LIMITS.bytes, show_default=True, help="Of one request; more get 413.")
@click.option("--max-rows", default=_LIMITS.rows, show_default=True, help="Of one request.")
@click.option("--timeout", default=_LIMITS.seconds, show_default=True, help="Seconds for one request.")
@click.option("--follow", type=float, metavar="S", help="Look every S seconds for a newer export and change to it.")
@click.option("--verify", is_flag=True, help="Compare every byte of an export with its hash before it is served.")
@click.option("--tls-cert", metavar="FILE", help="Certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="Its key (PEM).")
@click.option("--token-file", metavar="FILE", help="Requests must bear what is in it: Authorization: Bearer TOKEN.")
@click.option("--reuse-port", is_flag=True, help="Let several processes listen on the port; they share the rows.")
def command(
    path: str,
    host: str,
    port: int,
    engine: str,
    threads: int,
    queue: int,
    max_bytes: int,
    max_rows: int,
    timeout: float,
    follow: float | None,
    verify: bool,
    tls_cert: str | None,
    tls_key: str | None,
    token_file: str | None,
    reuse_port: bool,
) -> None:
    """Serve what session.export(PATH) or `heterps export` wrote.

    POST /predict scores rows (JSON, lines of JSON, or an Arrow stream); GET /health, /metrics (Prometheus) and / tell
    how it is; POST /reload changes to the newest export in PATH.
    """
    if min(threads, queue, max_bytes, max_rows) < 1 or timeout <= 0 or (follow is not None and follow <= 0):
        raise ServeError("threads, queue, sizes and times must be greater than 0")
    limits = ServerLimits(max_bytes, max_rows, timeout, queue, threads)
    locks = ServerLocks(tls_cert, tls_key, _token(token_file) if token_file else None)
    locks.check(host)
    predictor = Predictor(path, engine, verify=verify)  # type: ignore[arg-type]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    server = ModelServer(predictor, limits, locks)
    asyncio.run(_serving(server, host, port, follow, reuse_port))


def _token(path: str) -> str:
    token = read_small(Path(path), _MOST_TOKEN).decode(errors="replace").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise ServeError(
            f"{path}: a token has 16 printable ASCII characters or more, such as `openssl rand -hex 32` makes"
        )
    return token


async def _serving(server: ModelServer, host: str, port: int, follow: float | None, reuse_port: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    taken = server.listen(host, port, reuse_port=reuse_port)
    scheme = "https" if server.locks.cert else "http"
    click.echo(f"serving {server.predictor.version} on {scheme}://{host}:{taken}")
    following = asyncio.create_task(server.follow(follow)) if follow else None
    await stop.wait()
    if following is not None:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
    await server.close()
