"""Redis Streams as a source: a pass is the entries behind the last one that a checkpoint holds."""

from __future__ import annotations

import csv
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from heterps.errors import CheckpointError, DataError
from heterps.streaming.portion import Nothing, Portion

__all__ = ["RedisStream"]

_LOG = logging.getLogger("heterps")
_PAGE = 10_000  # entries asked for at a time
_TIMEOUT_S = 10.0


class RedisStream:
    """Entries of a Redis Stream; needs the package ``redis`` (``pip install heterps[redis]``).

    The days of passes are those of the entries' ids, in UTC. A portion is written to a CSV file whose columns are the
    entries' fields; with ``field`` it is the lines that this field holds, in whatever text format.

    Parameters
    ----------
    url, key
        Of the server, ``redis://127.0.0.1:6379/0``, and of the stream.
    field
        Each entry is a line of text in this field.
    least, most
        A portion is made once so many entries are there; it takes no more than the second.
    group
        A consumer group whose place is set to what a checkpoint holds, for those who watch the stream's lag.
    trim
        Delete entries from the stream once a checkpoint holds them.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        field: str | None = None,
        least: int = 1,
        most: int = 100_000,
        group: str | None = "heterps",
        trim: bool = False,
    ) -> None:
        if not 1 <= least <= most:
            raise DataError(f"a portion of {least} to {most} entries cannot be made")
        self._redis = _client(url)
        self._url, self._key, self._field = url, key, field
        self._least, self._most, self._group, self._trim = least, most, group, trim
        self._told = 0  # entries that were lost, as the user knows
        self._lock = threading.Lock()  # commits come while the next portion is looked for

    def poll(self, after: Any) -> Portion | Nothing:
        """Ask for the entries behind a position, as far as they are of one day."""
        place = _Place.of(after)
        with self._lock, _named(self._url, self._key):
            place = self._settled(place, self._redis.exists(self._key) == 1)
            ids = self._ids(place.last)
        if not ids:
            return Nothing(f"more entries in {self._key} at {self._url}")
        day = _day(ids[0])
        same = [each for each in ids if _day(each) == day]
        if len(same) < self._least and len(same) == len(ids):
            return Nothing(f"{self._least} entries in {self._key} at {self._url}, there are {len(same)}")
        position = [same[-1], place.seen + len(same)]
        return Portion(position, day, f"{same[0]}..{same[-1]}", span=[same[0], same[-1]])

    def _settled(self, place: _Place, is_there: bool) -> _Place:
        """Count entries that were deleted before we came to them: they are lost, and the user is told."""
        info = self._redis.xinfo_stream(self._key) if is_there else {}
        if "entries-added" not in info:  # since Redis 7
            return place
        added, there, first = info["entries-added"], info["length"], info["first-entry"]
        if place.last == _BEGINNING:
            return _Place(_BEGINNING, added - there)  # what was gone before we began is none of ours
        if first and _order(_text(first[0])) <= _order(place.last):
            return place  # they begin behind us: nothing between was trimmed
        lost = added - there - place.seen
        if lost > 0 and lost != self._told:
            _LOG.warning("%s at %s: %d entries behind %s were deleted before they were trained on",
                         self._key, self._url, lost, place.last)  # fmt: skip
        self._told = lost
        return _Place(place.last, place.seen + max(0, lost))

    def _ids(self, last: str) -> list[str]:
        """Return the ids behind one, the first ``most`` of them."""
        found: list[str] = []
        while len(found) < self._most:
            page = self._redis.xrange(self._key, f"({last}", "+", min(_PAGE, self._most - len(found)))
            if not page:
                break
            found += [_text(number) for number, _ in page]
            last = found[-1]
        return found

    def fetch(self, portion: Portion, folder: Path) -> tuple[str, ...]:
        """Write the entries of a portion to a file."""
        first, last = portion.span
        target = folder / ("rows.csv" if self._field is None else "rows.txt")
        entries: list[dict[str, str]] = []
        begin = first
        with self._lock, _named(self._url, self._key):
            while page := self._redis.xrange(self._key, begin, last, _PAGE):
                entries += [{_text(name): _text(value) for name, value in fields.items()} for _, fields in page]
                begin = f"({_text(page[-1][0])}"
        if not entries:
            raise DataError(f"the entries {first} to {last} of {self._key} at {self._url} are not there any more")
        with open(target, "w", newline="", encoding="utf-8") as file:
            self._write(file, entries)
        return (str(target),)

    def _write(self, file: Any, entries: list[dict[str, str]]) -> None:
        if self._field is not None:
            lacking = next((each for each in entries if self._field not in each), None)
            if lacking is not None:
                raise DataError(f"an entry of {self._key} has no field {self._field!r}; it has {', '.join(lacking)}")
            file.writelines(each[self._field].rstrip("\n") + "\n" for each in entries)
            return
        columns = list(dict.fromkeys(name for each in entries for name in each))
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(entries)

    def commit(self, position: Any) -> None:
        """Tell the server how far we are, and let go of what is behind us where that is wanted."""
        last = _Place.of(position).last
        if last == _BEGINNING:
            return
        with self._lock, _named(self._url, self._key):
            if self._group is not None:
                self._set_group(self._group, last)
            if self._trim:
                millis, _, number = last.partition("-")
                self._redis.xtrim(self._key, minid=f"{millis}-{int(number) + 1}", approximate=False)

    def _set_group(self, group: str, last: str) -> None:
        import redis

        try:
            self._redis.xgroup_create(self._key, group, last, mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
            self._redis.xgroup_setid(self._key, group, last)

    def close(self) -> None:
        """Close the connection."""
        self._redis.close()


_BEGINNING = "0-0"


def _client(url: str) -> Any:
    try:
        import redis
    except ImportError as error:
        raise DataError(f"cannot read {url}: the package redis is missing; pip install 'heterps[redis]'") from error
    try:
        return redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S)
    except ValueError as error:
        raise DataError(f"cannot read {url}: {error}") from error


class _named:  # noqa: N801 (used as a function)
    """Turn what a server or connection raises into an error that names them."""

    def __init__(self, url: str, key: str) -> None:
        self._what = f"cannot read the stream {key} at {url}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import redis

        if isinstance(error, redis.RedisError):
            raise DataError(f"{self._what}: {error}") from error


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _order(number: str) -> tuple[int, int]:
    millis, _, serial = number.partition("-")
    return int(millis), int(serial or 0)


class _Place(NamedTuple):
    """The last entry that was taken, and how many were ever added up to it."""

    last: str
    seen: int

    @classmethod
    def of(cls, position: Any) -> _Place:
        if position is None:
            return cls(_BEGINNING, 0)
        try:
            last, seen = position
            _order(last)
            return cls(str(last), int(seen))
        except (AttributeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{position!r} is no position in a Redis Stream: the stream read something else"
            ) from error


def _day(number: str) -> str:
    return datetime.fromtimestamp(_order(number)[0] / 1000, UTC).strftime("%Y%m%d")
