"""What every engine keeps from one run to the next, and what is asked of it whether or not a run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from heterps.runtime.cuts.carried import Carried
from heterps.runtime.cuts.checkpoints import Held, Keeper
from heterps.runtime.run.training import Training

__all__ = ["EngineBase"]

_T = TypeVar("_T")


class EngineBase:
    """Counts passes, knows what the tables hold, and lets things be done to them between two batches."""

    def __init__(self) -> None:
        self.passes = 0  # since the tables were fresh: the number of the next, or of a run's first while it goes on
        self.held = Held()  # what the tables hold between runs
        self.carried = Carried()  # what a training carries from run to run; each begins with what it finds here
        self._runs = 0  # how many were begun
        self._training: Training | None = None  # while a run goes on

    @contextmanager
    def _going_on(self, training: Training, keeper: Keeper, epochs: int) -> Iterator[None]:
        """Be a context in which a run goes on; after it the tables hold what the run left."""
        self._training = training
        try:
            yield
        finally:
            self._training = None
            self.held = keeper.held_after(training.succeeded, training.bad_streak, training.returning)
            self.passes = keeper.first + epochs  # also when stopped early: a key that was applied must not come again
            if training.returning is not None and (training.began or keeper.standing is not None):
                self._begin_again(training.returning, keeper)

    def _begin_again(self, cut: int, keeper: Keeper) -> None:
        """Some hosts have loaded what the run was returning to, some have not: none of it is used."""
        if cut or keeper.can_begin_again:
            self._drop_tables()
        else:
            self.held = replace(self.held, why="a shard host was lost with its rows", lost=True)

    def _drop_tables(self) -> None:
        """Let go of all shard hosts; they are made anew when they are needed."""
        raise NotImplementedError

    def at_rest(self, act: Callable[[], _T], changes: bool = False) -> _T:
        """Do something between two batches, or between runs."""
        return act() if self._training is None else self._training.at_rest(act, changes)

    def _settle(self) -> None:
        """Before hosts are read: what is all-reduced they have only when a run rests."""
        if self._training is not None:
            self._training.settle()

    @property
    def bad_streak(self) -> int:
        """How many batches, up to the last one counted, had a loss that is no finite number."""
        return self.held.bad_streak if self._training is None else self._training.bad_streak

    @property
    def next_pass(self) -> int:
        """Number of the next pass that will have been begun by nobody."""
        return self.passes if self._training is None else self._training.pass_ + 1
