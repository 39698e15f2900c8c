"""What came, went and moved in a run, in words: each is logged, and in the next report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from heterps.protocol.run.state import RunState
from heterps.protocol.words import events as ev, instructions as do

__all__ = ["Moves"]

_log = logging.getLogger("heterps")


class Moves:
    """Puts events and instructions of a run into words, from the moment at which all its hosts answered for the first
    time: what comes before is how it begins, and so are workers that were there already, whenever they are made ready.

    Parameters
    ----------
    state
        The run.
    name
        ``name(worker)`` is what a user calls it.
    was_there
        ``was_there(worker)`` when the run began.
    """

    def __init__(self, state: RunState, name: Callable[[str], str], was_there: Callable[[str], bool]) -> None:
        self._state, self._name, self._was_there = state, name, was_there
        self._begun = False
        self._told: list[str] = []  # since the last report
        self._there: set[str] = set()  # workers that joined and have not gone
        self._left: set[str] = set()  # workers that were there and went
        self._astray: dict[int, str] = {}  # lanes (Sync) or Splits whose worker goes, until they are run elsewhere

    def taken(self) -> tuple[str, ...]:
        """Return what happened since the last call."""
        told, self._told = tuple(self._told), []
        return told

    def note(self, word: ev.Event | do.Instruction) -> None:
        """An event that arrived, before the run is told; or an instruction that is about to be carried out."""
        self._begun |= self._state.fleet.ready
        told = list(self._words(word))
        if self._begun:
            self._told += told
            for words in told:
                _log.info("%s", words)

    def _words(self, word: ev.Event | do.Instruction) -> Iterator[str]:
        match word:
            case ev.WorkerJoined(worker):
                yield from self._joined(worker)
            case ev.ServersJoined(workers):
                for worker in workers:
                    yield from self._joined(worker)
            case ev.WorkerLeaving(worker):
                self._leaves(worker)
                yield f"{self._name(worker)} leaves"
            case ev.WorkerLost(worker) if worker in self._there:
                self._gone(worker)
                yield f"{self._name(worker)} is lost"
            case ev.SplitDone(number):
                self._done(number)
            case do.LetGo(worker):
                self._gone(worker)
                yield f"{self._name(worker)} has left"
            case _:
                yield from self._moved(word)

    def _moved(self, word: ev.Event | do.Instruction) -> Iterator[str]:
        match word:
            case do.Promote(copy) if copy in self._state.fleet.places:
                yield f"shard host {self._host(copy)} is on {self._where(copy)} now"
            case do.CreateHost(host=host, worker=worker, cut=int(cut)):
                yield f"shard host {host} begins again on {self._name(worker)}{f' from cut {cut}' if cut else ''}"
            case ev.BackupReady(_, backup) if backup in self._state.fleet.places and self._state.spec.replicas > 1:
                yield f"shard host {self._host(backup)} has a backup on {self._where(backup)}"
            case do.RunSplit(worker=worker):
                yield from self._run(word, worker)

    def _run(self, run: do.RunSplit, worker: str) -> Iterator[str]:
        ordered = self._state.spec.mode.ordered
        what = run.lane if ordered else run.split or 0
        if self._astray.pop(what, worker) != worker:
            yield f"{'lane' if ordered else 'split'} {what} goes on at {self._name(worker)}"

    def _joined(self, worker: str) -> Iterator[str]:
        if worker not in self._there:
            self._there.add(worker)
            if worker in self._left or not self._was_there(worker):
                yield f"{self._name(worker)} joins"

    def _gone(self, worker: str) -> None:
        self._there.discard(worker)
        self._left.add(worker)
        self._leaves(worker)

    def _done(self, number: int) -> None:
        attempt = self._state.roster.attempts.get(number)
        if attempt is not None:
            self._astray.pop(self._state.roster.stream(attempt) or 0, None)

    def _leaves(self, worker: str) -> None:
        """Remember what it runs: that will go on elsewhere."""
        roster = self._state.roster
        found = roster.workers.get(worker)
        for attempt in found.attempts.values() if found is not None else ():
            self._astray[roster.stream(attempt) or 0] = worker

    def _host(self, copy: int) -> int:
        return self._state.fleet.places[copy][0]

    def _where(self, copy: int) -> str:
        return self._name(self._state.fleet.places[copy][1])
