"""Training that is left at random moments, and begun again at once: what every engine must stand."""

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import heterps as hps
from tests import raising

WAYS = ("unbegun", "break", "close", "error", "interrupt")
ROWS = 200


class EnoughError(Exception):
    """What a user's own code raises in the loop."""


@contextmanager
def interrupted(after_s: float) -> Iterator[None]:
    """Be a context in which somebody presses Ctrl-C after so long; it ends there."""

    def press(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, press)
    try:
        with suppress(KeyboardInterrupt):
            try:
                signal.setitimer(signal.ITIMER_REAL, max(after_s, 1e-4))
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)


def leave(session: hps.Session, way: str, after_s: float) -> None:
    """Begin a training of many passes and leave it, in one of the ways and after so long."""
    reports, until = session.train(raising.data(), epochs=1000), monotonic() + after_s
    if way == "unbegun":
        reports.close()  # type: ignore[attr-defined]
    elif way == "interrupt":
        with interrupted(after_s):
            list(reports)
    else:
        with suppress(EnoughError):
            for _ in reports:
                if monotonic() < until:
                    continue
                if way == "error":
                    raise EnoughError
                if way == "close":
                    reports.close()  # type: ignore[attr-defined]
                break


def counted(session: hps.Session) -> list[int]:
    """Return how many batches each shard host has applied; one that an interrupt kept from being made, none."""
    engine: Any = session.engine
    answers = [line.ask("counts") for line in engine._places.lines.values()]
    return [0 if answer.exception(60) else answer.result().get("batches", 0) for answer in answers]


def leave_often(seed: int, sessions: int, longest_s: float, **options: Any) -> list[str]:
    """Open sessions, leave each some times, then train to the end; return what was done.

    Parameters
    ----------
    longest_s
        Moments are drawn between nothing and this.
    **options
        For ``launch``.
    """
    rng, story = random.Random(seed), []
    for number in range(sessions):
        stages, mode = rng.choice((1, 2, 4)), rng.choice(("sync", "async"))
        plan = raising.plan(raising.graph(1 << 60), stages, ("io", "server", "compute"), lanes=2, shard_hosts=2)
        torn = False  # Ctrl-C may leave a batch that one host has and another has not
        with hps.launch(plan, mode=mode, report_s=0.01, **options) as session:
            for _ in range(rng.randint(1, 3)):
                way, after_s = rng.choice(WAYS), longest_s * rng.random() ** 2
                story.append(f"session {number}: {stages} stages, {mode}, {way} after {after_s:.3f} s")
                leave(session, way, after_s)
                torn |= way == "interrupt"
                counts = counted(session)
                assert torn or len(set(counts)) < 2, (story, counts)
            last = list(session.train(raising.data(ROWS)))[-1]
            assert (last.samples, last.done) == (ROWS, True), story
            session.evaluate(raising.data(ROWS))
    return story
