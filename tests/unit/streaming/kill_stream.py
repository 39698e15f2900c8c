"""A process that streams in children, kills them, and starts them again until one comes to the end; prints JSON.

Run as ``python -m tests.unit.streaming.kill_stream FOLDER SEED [RENAME, ...] RANDOM_KILLS``. Children are forked by a
process that has no other thread, so that only the first one pays for imports and compiled loops.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.streaming import small_stream

OPTIONS: dict[str, Any] = {"checkpoint_every": 2, "delta_every": 3, "metrics": ["auc", "copc", "gauc:user"]}


def forked(act: Callable[[], None]) -> int:
    """Run something in a child; return its number."""
    child = os.fork()
    if child:
        return child
    try:
        act()
        os._exit(0)
    except BaseException as error:
        print(f"a child failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def killed_at_rename(pattern: str, out: Path, number: int) -> int:
    """Stream in a child that kills itself before its n-th renaming: every lasting effect of a stream is one."""

    def act() -> None:
        left, names = [number], ("replace", "rename")
        for name, real in [(name, getattr(os, name)) for name in names]:

            def counted(*words: Any, real: Any = real, **rest: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*words, **rest)

            setattr(os, name, counted)
        small_stream.run(pattern, out, **OPTIONS)

    return os.waitpid(forked(act), 0)[1]


def killed_after(pattern: str, out: Path, seconds: float) -> int:
    """Stream in a child and kill it after some time, wherever it is."""
    child = forked(lambda: small_stream.run(pattern, out, **OPTIONS))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def outcome(out: Path) -> dict[str, Any]:
    """Return everything that must not depend on kills: tables, log, what was published with its content."""
    given = small_stream.published(out)
    parts = {each["folder"]: small_stream.content(out / each["folder"]) for each in given}
    return {"rows": small_stream.rows(out), "log": small_stream.logged(out), "published": given, "parts": parts}


def trial(kill: Callable[[int], int]) -> int:
    """Kill and start again until a child comes to its end; return how many were killed."""
    for kills in range(60):
        status = kill(kills)
        if status == 0:
            return kills
        assert os.WIFSIGNALED(status), f"a child ended with {status}"
        assert os.WTERMSIG(status) == signal.SIGKILL
    raise AssertionError("no child came to its end")


class Trials:
    """Streams that are killed, each compared with one that was not."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng, self.kills, self.count = folder, random.Random(seed), 0, 0
        self.pattern = small_stream.write_days(folder / "logs", days=2, passes=3, rows=60)
        small_stream.run(self.pattern, folder / "straight", **OPTIONS)
        self.wanted = outcome(folder / "straight")
        self.differences: list[str] = []

    def run(self, kill: Callable[[Path, int], int]) -> None:
        """Run one: ``kill(out, n)`` is its n-th child."""
        out = self.folder / f"out{self.count}"
        kills, found = trial(lambda n: kill(out, n)), outcome(out)
        self.differences += [
            f"{name} of {out.name} after {kills}" for name in found if found[name] != self.wanted[name]
        ]
        self.kills, self.count = self.kills + kills, self.count + 1

    def at_renames(self, first: int) -> None:
        """Let the first child die at a renaming, the second soon after it began; then one may live."""
        self.run(lambda out, n: killed_at_rename(self.pattern, out, (first, 7, 1 << 30)[min(n, 2)]))

    def at_random(self) -> None:
        """Kill at some time or other; the more children there were, the longer the next may live."""
        straight_s = self._straight_s()
        self.run(lambda out, n: killed_after(self.pattern, out, self.rng.random() * straight_s * (0.7 + 0.1 * n)))

    def _straight_s(self) -> float:
        """Return how long it takes now: others may be at work."""
        began, out = time.monotonic(), self.folder / f"timed{self.count}"
        forked_status = os.waitpid(forked(lambda: small_stream.run(self.pattern, out, **OPTIONS)), 0)[1]
        assert forked_status == 0
        return time.monotonic() - began


def main(folder: Path, seed: int, renames: list[int], random_kills: int) -> None:
    """Run the trials and print what differed."""
    trials = Trials(folder, seed)
    for first in renames:
        trials.at_renames(first)
    while trials.kills < random_kills:
        trials.at_random()
    print(json.dumps({"kills": trials.kills, "trials": trials.count, "differences": trials.differences}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4]))
