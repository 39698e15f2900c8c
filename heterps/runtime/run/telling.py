"""Telling the cluster's notice board how a training goes, beside it: the run never waits but for its last word."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from distributed import Client

from heterps.errors import ClusterError
from heterps.runtime.answers import answer, reason_of
from heterps.runtime.cluster.notices import put_up_board, tell_board
from heterps.runtime.config import settings
from heterps.runtime.report.board import news_of
from heterps.runtime.report.progress import Progress

__all__ = ["telling"]

_LAST_S = 2.0  # for the last word
_WAITING = 4  # reports under way: a scheduler that is slower than that is told less
_log = logging.getLogger("heterps")


@contextmanager
def telling(client: Client, run: str, about: Mapping[str, Any]) -> Iterator[Callable[[Progress], None]]:
    """Tell the notice board that a training begins and how it ends; yield what tells it a report.

    Parameters
    ----------
    client
        Of the cluster.
    run
        What tells the training from all others.
    about
        ``name``, ``about`` and ``picture`` of a :class:`~heterps.runtime.report.board.Notice`.
    """
    if not settings().watch or not _has_board(client):
        yield lambda progress: None
        return
    teller = _Teller(client, run)
    teller.say("begin", {**about, "driver": client.id})
    done = False

    def tell(progress: Progress) -> None:
        nonlocal done
        done = progress.done
        teller.say("news", {"news": news_of(progress)})

    try:
        yield tell
    except GeneratorExit:
        teller.last(*(("done", "") if done else ("left", "training was left before its end")))
        raise
    except BaseException as error:
        teller.last("failed", reason_of(error).splitlines()[0])
        raise
    teller.last("done", "")


def _has_board(client: Client) -> bool:
    try:
        put_up_board(client)
    except ClusterError as error:
        _log.warning("nobody can watch this training: %s", error)
        return False
    return True


class _Teller:
    """Says words in their order."""

    def __init__(self, client: Client, run: str) -> None:
        self._client, self._run = client, run
        self._under_way: list[Future[None]] = []

    def say(self, word: str, said: Mapping[str, Any]) -> None:
        """Say a word without waiting; drop it where too many are under way."""
        self._under_way = [each for each in self._under_way if not each.done()]
        if len(self._under_way) >= _WAITING or self._client.status != "running":
            return
        words = self._said(word, said, self._under_way[-1] if self._under_way else None)
        try:
            self._under_way.append(asyncio.run_coroutine_threadsafe(words, self._client.loop.asyncio_loop))
        except RuntimeError:  # the loop is closed, and so is the session
            words.close()

    async def _said(self, word: str, said: Mapping[str, Any], before: Future[None] | None) -> None:
        if before is not None:
            with suppress(Exception):
                await asyncio.wrap_future(before)
        try:
            await tell_board(self._client, word, self._run, said)
        except Exception as error:
            _log.debug("the notice board was not told: %s", reason_of(error))

    def last(self, state: str, words: str) -> None:
        """Say how it ended, and give that a moment: the process may be about to end."""
        before = self._under_way[-1] if self._under_way else None
        with suppress(ClusterError):
            said = {"state": state, "words": words}
            answer(self._client, lambda: self._said("end", said, before), ClusterError, _LAST_S)
