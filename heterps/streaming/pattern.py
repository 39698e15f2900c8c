"""Names of files by day and pass: ``logs/{day}/{pass}/*.csv``, ``data_{%Y%m%d%H%M}.tsv``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from heterps.errors import DataError

__all__ = ["NamedPass", "PassPattern"]

_PLACE = re.compile(r"\{([^{}]*)\}")
_DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "j": 3}
_OF_DAY = "Yymdj"
_WILD = {"*": "[^/]*", "?": "[^/]"}


class NamedPass(NamedTuple):
    """Day and name of a pass."""

    day: str
    name: str


@dataclass(frozen=True)
class PassPattern:
    """A path with places for day and pass.

    ``{day}`` and ``{pass}`` stand for any part of a name; ``{%Y%m%d}`` and ``{%H%M}`` for digits of a date and time, of
    which those of the date make the day and the others the pass. ``*`` and ``?`` match what does not matter.
    """

    text: str

    def __post_init__(self) -> None:
        places = _PLACE.findall(self.text)
        if not places:
            raise DataError(
                f"{self.text!r} has no place for a pass: write it as logs/{{day}}/{{pass}} or data_{{%Y%m%d%H%M}}.csv"
            )
        for place in places:
            if place not in ("day", "pass"):
                _check_format(place, self.text)

    @property
    def glob(self) -> str:
        """The pattern with ``*`` in each place."""
        return _PLACE.sub("*", self.text)

    def match(self, path: str) -> NamedPass | None:
        """Return which pass a path belongs to; None where it is none's."""
        found = re.fullmatch(self._expression(), path)
        if found is None:
            return None
        groups = found.groupdict()
        day = "".join(value for name, value in groups.items() if name.startswith("day"))
        return NamedPass(day, "".join(value for name, value in groups.items() if name.startswith("pass")))

    def filled(self, which: NamedPass) -> str:
        """Return the pattern with ``{day}`` and ``{pass}`` put in; dates and times stay as they are."""
        return self.text.replace("{day}", which.day).replace("{pass}", which.name)

    def _expression(self) -> str:
        parts, at, seen = [], 0, 0
        for place in _PLACE.finditer(self.text):
            parts.append(_plain(self.text[at : place.start()]))
            for kind, expression in _pieces(place.group(1)):
                parts.append(f"(?P<{kind}{seen}>{expression})" if kind else expression)
                seen += 1
            at = place.end()
        return "".join((*parts, _plain(self.text[at:])))


def _pieces(place: str) -> list[tuple[str, str]]:
    """Return what a place consists of: of day or pass, or of neither, each with its regular expression."""
    if place in ("day", "pass"):
        return [(place, "[^/]+")]
    words = re.findall(r"%(.)|([^%]+)", place)
    return [
        ("day" if sign in _OF_DAY else "pass", rf"\d{{{_DIGITS[sign]}}}") if sign else ("", re.escape(between))
        for sign, between in words
    ]


def _plain(text: str) -> str:
    return "".join(_WILD.get(sign, re.escape(sign)) for sign in text)


def _check_format(place: str, pattern: str) -> None:
    signs = re.findall(r"%(.?)", place)
    wrong = next((sign for sign in signs if sign not in _DIGITS), None)
    if not signs or wrong is not None:
        raise DataError(
            f"{{{place}}} in {pattern!r} is neither {{day}}, {{pass}} nor a date like {{%Y%m%d}}; "
            f"dates are made of {', '.join('%' + sign for sign in _DIGITS)}"
        )
