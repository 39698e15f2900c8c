"""Lists of days and passes as people write them: ``20261101..20261107``, ``00..23``, ``a,b,c``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta

from heterps.errors import DataError

__all__ = ["parse_list"]

_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST = 100_000


def parse_list(given: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are meant; days of eight digits are counted by the calendar, other numbers as they are.

    >>> parse_list(["20260227..20260301", "a"])
    ('20260227', '20260228', '20260301', 'a')
    >>> parse_list(["08..11"])
    ('08', '09', '10', '11')
    """
    return tuple(name for text in given for part in text.split(",") for name in _names(part.strip()) if name)


def _names(text: str) -> list[str]:
    found = _RANGE.fullmatch(text)
    if found is None:
        if ".." in text:
            raise DataError(f"{text!r} is no range: write it as 00..23 or 20261101..20261107")
        return [text]
    first, last = found.groups()
    names = _days(first, last) if len(first) == len(last) == 8 else _numbers(first, last)
    if not names:
        raise DataError(f"{text!r} is empty: its end lies before its beginning")
    return names


def _days(first: str, last: str) -> list[str]:
    begin, end = _date(first), _date(last)
    return [f"{begin + timedelta(days=n):%Y%m%d}" for n in range((end - begin).days + 1)]


def _date(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y%m%d").date()
    except ValueError:
        raise DataError(f"{text!r} is no day of the calendar; days are written as 20261101") from None


def _numbers(first: str, last: str) -> list[str]:
    if int(last) - int(first) > _MOST:
        raise DataError(f"{first}..{last} are more than {_MOST:,} names")
    return [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
