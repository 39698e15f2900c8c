"""Where the copies of shard hosts are: the actors that hold tables, and which of them answers for each host."""

from __future__ import annotations

from collections.abc import Iterator

from heterps.runtime.run.line import ActorLine

__all__ = ["Places"]


class Places:
    """Copies of shard hosts by number and worker; those that answer outlive runs.

    Attributes
    ----------
    lines
        The way to each copy.
    answering
        The worker whose copy answers for a host. It stays when the worker is gone, as a sign that rows were lost there.
    """

    def __init__(self) -> None:
        self.lines: dict[tuple[int, str], ActorLine] = {}
        self.answering: dict[int, str] = {}

    def line(self, host: int) -> ActorLine | None:
        """Return the way to the copy that answers for a host."""
        worker = self.answering.get(host)
        return None if worker is None else self.lines.get((host, worker))

    def set(self, host: int, worker: str, line: ActorLine) -> ActorLine:
        """From now on this copy answers for the host."""
        self.lines[host, worker] = line
        self.answering[host] = worker
        return line

    def backups(self) -> list[tuple[int, str]]:
        """Return where copies are that do not answer."""
        return [(host, worker) for host, worker in self.lines if self.answering.get(host) != worker]

    def held(self) -> tuple[tuple[int, str], ...]:
        """Return the hosts whose tables are there, each with its worker."""
        return tuple((host, worker) for host, worker in self.answering.items() if (host, worker) in self.lines)

    def lose(self, host: int, line: ActorLine) -> None:
        """Forget a copy that does not answer any more."""
        if self.lines.get((host, line.worker)) is line:
            del self.lines[host, line.worker]
            if self.answering.get(host) == line.worker:
                del self.answering[host]

    def on(self, worker: str) -> Iterator[tuple[tuple[int, str], ActorLine]]:
        """Yield what is on a worker."""
        yield from [(place, line) for place, line in self.lines.items() if place[1] == worker]

    def clear(self) -> list[ActorLine]:
        """Forget everything; return the lines there were."""
        lines = list(self.lines.values())
        self.lines.clear()
        self.answering.clear()
        return lines
