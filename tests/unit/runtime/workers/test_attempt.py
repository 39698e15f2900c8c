"""An attempt that has ended lets go of what it held."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from heterps.protocol import Async
from heterps.protocol.words import instructions as do
from heterps.protocol.words.layout import Layout
from heterps.runtime.batch.reading import Reading
from heterps.runtime.workers.attempt import Attempt


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("late", [False, True])
def test_events_that_nobody_handles_keep_nothing(late: bool) -> None:
    class Bench:
        """Stands for a workbench: only its life matters here."""

        class copy:  # noqa: N801
            leave = staticmethod(lambda attempt, terms, whole: None)

    bench: Any = Bench()
    run = do.RunSplit(5, 5, "w", 0, 0, 0, 0, 0, None, 0, (0, 0), Layout(1, (1,), (1,), (0,)))
    attempt = Attempt(run, Async(), Reading(None, 0), bench, lambda copy: None, lambda event: None)  # type: ignore[arg-type, return-value]
    held = weakref.ref(bench)
    if late:
        attempt.close()
    attempt.handle(do.Cancel(5))
    attempt.between(lambda: None)
    attempt.close()
    del attempt, bench
    assert held() is None
