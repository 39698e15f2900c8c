"""The scheduler's notice board: trainings tell it how they go, ``heterps watch`` and the page ``/heterps`` read it.

The page is served by the HTTP server that every Dask scheduler has, with or without Bokeh; no listener is opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from time import time
from typing import Any

from distributed import Client, Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.web import HTTPError, RequestHandler

from heterps.errors import ClusterError
from heterps.runtime.answers import answer
from heterps.runtime.config import settings
from heterps.runtime.report.board import Board, Notice

__all__ = ["NoticeBoard", "put_up_board", "read_board", "tell_board"]

_NAME = "heterps-notice-board"
_TELL, _READ = "heterps_tell", "heterps_read"  # what the scheduler is asked for
# Nothing from elsewhere, and no script in what a training has drawn.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self'; connect-src 'self'"
)


class NoticeBoard(SchedulerPlugin):
    """Keeps what trainings tell, and shows it over HTTP and to clients."""

    name = _NAME
    idempotent = True

    async def start(self, scheduler: Scheduler) -> None:
        """Begin to answer."""
        self._scheduler, self._board = scheduler, Board()
        scheduler.handlers.update({_TELL: self.tell, _READ: self.read})
        here = {"board": self._board}
        # Whatever prefix the scheduler's own pages have.
        pages = [
            (r".*/heterps/state\.json", _StatePage, here),
            (r".*/heterps/plan\.svg", _PlanPage, here),
            (r".*/heterps/?", _Page, here),
        ]
        scheduler.http_application.add_handlers(r".*$", pages)
        _list_in_dashboard(scheduler)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """A driver is gone; if it said so, its trainings are over already."""
        self._board.lose(client, time())

    def tell(self, word: str, run: str, **said: Any) -> None:
        """Take a word of a training: ``begin``, ``news`` or ``end``."""
        now = time()
        if word == "begin":
            self._board.begin(Notice(run, began=now, **said))
        elif word == "news":
            self._board.take(run, said["news"], now)
        else:
            self._board.end(run, said["state"], said["words"], now)

    def read(self) -> Mapping[str, Any]:
        """Return what is on the board, and where its page is."""
        return {**self._board.state(time()), "page": self._page()}

    def _page(self) -> str:
        server = self._scheduler.http_server
        scheme = "https" if server.ssl_options is not None else "http"
        host = f"[{server.address}]" if ":" in server.address else server.address
        return f"{scheme}://{host}:{server.port}/heterps"


def _list_in_dashboard(scheduler: Scheduler) -> None:
    """Let the pages of Dask's dashboard lead to ours, where it has any: without Bokeh it has none."""
    try:
        from distributed.dashboard.scheduler import template_variables
    except ImportError:
        return
    pages = template_variables(scheduler)["pages"]
    if "heterps" not in pages:
        pages.append("heterps")


class _Handler(RequestHandler):
    def initialize(self, board: Board) -> None:
        self.board = board

    def answer(self, kind: str, body: str) -> None:
        self.set_header("Content-Type", f"{kind}; charset=utf-8")
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.finish(body)


class _Page(_Handler):
    """The page; it asks for the state again and again."""

    def get(self) -> None:
        self.answer("text/html", resources.files(__package__).joinpath("notices.html").read_text("utf-8"))


class _StatePage(_Handler):
    """What is on the board."""

    def get(self) -> None:
        self.answer("application/json", json.dumps(self.board.state(time()), allow_nan=False))


class _PlanPage(_Handler):
    """The drawn plan of a training."""

    def get(self) -> None:
        picture = self.board.picture(self.get_query_argument("run", ""))
        if not picture:
            raise HTTPError(404)
        self.answer("image/svg+xml", picture)


def put_up_board(client: Client) -> None:
    """See to it that the scheduler of a cluster has a notice board.

    Raises
    ------
    ClusterError
        Where it cannot have one: it may lack this package.
    """

    async def register() -> None:
        await client.register_plugin(NoticeBoard())

    answer(client, register, lambda why: ClusterError(f"the scheduler has no notice board: {why}"), settings().call_s)


def read_board(client: Client) -> Mapping[str, Any]:
    """Return what is on the notice board of a cluster.

    Raises
    ------
    ClusterError
        When the scheduler is gone.
    """

    async def ask() -> Mapping[str, Any]:
        found: Mapping[str, Any] = await getattr(client.scheduler, _READ)()
        return found

    return answer(client, ask, lambda why: ClusterError(f"the scheduler is gone ({why})"), settings().call_s)


async def tell_board(client: Client, word: str, run: str, said: Mapping[str, Any]) -> None:
    """Tell the notice board something, in the client's loop."""
    await getattr(client.scheduler, _TELL)(word=word, run=run, **said)
