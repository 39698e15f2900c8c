"""What one source column looks like, and what it is therefore taken for: the rules, one function each."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from heterps.data.core.recipes import Bucket, Category, Match, Number, Recipe

__all__ = [
    "MANY",
    "WIDE",
    "ColumnLook",
    "ColumnStudy",
    "is_number",
    "look_at_text",
    "look_of_floats",
    "study_feature",
    "study_label",
]

Role = Literal["category", "number", "label", "weight", "ignored"]
Look = Literal["text", "integer", "float", "date", "list", "object", "empty"]

MANY = 100  # integers of more distinct values are taken for codes
WIDE = 10_000  # as are integers that lie as far apart
_ALIKE = 100  # rows that must all have another value for that to mean something
_TAIL, _LONG = 0.01, 1000.0  # half of the values in the lowest hundredth of a range of a thousand or more: counts
_FEW = 9  # steps that show that a column only counts
_VARIED = 30  # different values that amounts have at least
_INTEGER = re.compile(r"[+-]?\d{1,300}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?")
_TRUTH = {"true": "1", "false": "0"}  # as every format but text has them
_NOTHING = ("na", "n/a", "nan", "null", "none", "?", "\\n")
_INFINITE = tuple(sign + word for sign in ("", "+", "-") for word in ("inf", "infinity"))  # their rows are bad
_YES = ("1", "true", "t", "yes", "y", "positive", "pos", "click", "clicked")
_CODED = re.compile(r"(?i:(.*[_ .-])?(id|uid|user|item|code|zip|zipcode|hash))|.*[a-z](Id|ID)")
_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
_SCALED = (-10.0, 10.0, 1.0, 0.1, 3.0)  # least, most, largest mean, least and largest deviation of numbers left alone
_EXACT = 2.0**53  # whole floats from here on may stand for several integers
_SQUARED = 1e150  # numbers up to this can be squared and added up


@dataclass(frozen=True, eq=False)
class ColumnLook:
    """What the sampled cells of a column look like.

    Parameters
    ----------
    name, rows, missing, distinct
        The column; cells looked at, those that are empty, different ones among the others.
    look
        The narrowest thing that every present cell is.
    numbers
        The present cells, where they are numbers.
    low, high
        Least and largest, as text.
    values
        Different cells with how often each occurs, where they are few.
    padded
        Whether an integer begins with a zero that its value does not need.
    typed
        The type, where the source declares one that says more than its cells do.
    floats
        Whether the numbers came as floats, whole ones or not.
    truth
        Whether the cells say true or false.
    """

    name: str
    rows: int
    missing: int
    distinct: int
    look: Look
    numbers: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    low: str = ""
    high: str = ""
    values: tuple[tuple[str, int], ...] = ()
    padded: bool = False
    typed: str = ""
    floats: bool = False
    truth: bool = False

    @property
    def is_rounded(self) -> bool:
        """Whether these are whole floats of which some are too large to tell neighbouring integers apart."""
        if not self.floats or not len(self.numbers) or np.abs(self.numbers).max() < _EXACT:
            return False
        return bool((self.numbers == np.floor(self.numbers)).all())

    @property
    def spread(self) -> float:
        """How far the least and the largest number lie apart."""
        return float(self.numbers.max()) - float(self.numbers.min()) if len(self.numbers) else 0.0

    @property
    def has_tail(self) -> bool:
        """Whether most numbers are small beside a few, and there are many different ones: counts, amounts."""
        if self.distinct < _VARIED or not len(self.numbers) or self.numbers.min() < 0 or self.spread < _LONG:
            return False
        with np.errstate(over="ignore"):  # of two numbers that are too large together
            middle = float(np.median(self.numbers))
        return middle - float(self.numbers.min()) <= _TAIL * self.spread

    @property
    def counts_rows(self) -> bool:
        """Whether it only numbers the rows."""
        with np.errstate(over="ignore"):  # such a step is none of 1
            steps = np.diff(self.numbers)
        return self.look == "integer" and not self.missing and len(steps) >= _FEW and bool((steps == 1).mean() > 0.99)


@dataclass(frozen=True, eq=False)
class ColumnStudy:
    """A column, what it is taken for, and why; ``told`` where that should be said without being asked."""

    look: ColumnLook
    role: Role
    why: str
    recipe: Recipe | None = None
    told: bool = False

    @property
    def is_code(self) -> bool:
        """Whether values are names, by what they are taken for or by what the column is called."""
        return self.role == "category" or (self.role == "number" and bool(_CODED.fullmatch(self.look.name)))


def look_at_text(name: str, cells: Sequence[str]) -> ColumnLook:
    """Look at cells of a text file."""
    present = [cell for cell in map(str.strip, cells) if cell]
    said = [cell for cell in present if cell.lower() not in (*_NOTHING, *_INFINITE)]
    if len(said) < len(present) and said and all(is_number(cell) or cell.lower() in _TRUTH for cell in said):
        present = said  # readers of numbers take such words for missing ones, or refuse their rows
    missing = len(cells) - len(present)
    truth = bool(present) and all(cell.lower() in _TRUTH for cell in present)
    present = [_TRUTH[cell.lower()] for cell in present] if truth else present
    counted: dict[str, int] = {}
    for cell in present:
        counted[cell] = counted.get(cell, 0) + 1
    common: dict[str, Any] = {"rows": len(cells), "missing": missing, "distinct": len(counted), "truth": truth}
    if len(counted) <= 3 and not truth:
        common["values"] = tuple(sorted(counted.items()))
    if not present:
        return ColumnLook(name, look="empty", **common)
    if all(map(_INTEGER.fullmatch, counted)):
        numbers = np.array([float(cell) for cell in present])
        whole = sorted(map(int, counted))
        common |= {"low": str(whole[0]), "high": str(whole[-1])}
        padded = any(len(cell) > 1 and cell[0] == "0" for cell in counted)
        return ColumnLook(name, look="integer", numbers=numbers, padded=padded, **common)
    found = _floats(present)
    if found is not None:
        common |= {"low": f"{found.min():.15g}", "high": f"{found.max():.15g}", "floats": True}
        return ColumnLook(name, look=look_of_floats(found, missing), numbers=found, **common)
    look: Look = "date" if all(map(_DATE.fullmatch, counted)) else "text"
    return ColumnLook(name, look=look, low=min(counted)[:20], high=max(counted)[:20], **common)


def look_of_floats(present: npt.NDArray[np.float64], missing: int) -> Look:
    """Whole floats beside missing values are the integers of a frame that cannot have both; others are floats."""
    return "integer" if missing and len(present) and bool((present == np.floor(present)).all()) else "float"


def is_number(text: str) -> bool:
    """Whether text is a finite number."""
    return _floats([text]) is not None


def _floats(cells: Sequence[str]) -> npt.NDArray[np.float64] | None:
    """Return the numbers that all cells are; infinite ones are none that could be used."""
    try:
        found = np.array([float(cell) for cell in cells])
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None


def study_feature(look: ColumnLook) -> ColumnStudy:
    """Decide what a column is taken for that nobody spoke about."""
    if _UNNAMED.fullmatch(look.name):
        return ColumnStudy(look, "ignored", "it has no name: the index of a frame", None, told=True)
    if look.look == "empty":
        return ColumnStudy(look, "ignored", "it is empty in every row looked at", None, told=look.rows > 0)
    if look.look == "list":
        return ColumnStudy(look, "ignored", "it holds lists: declare it with ragged(...)", None, told=True)
    if look.look == "object":
        return ColumnStudy(look, "ignored", "it holds objects: put their members beside it", None, told=True)
    if look.counts_rows:
        return ColumnStudy(look, "ignored", "it numbers the rows", None, told=True)
    code = _why_code(look)
    return as_category(look, *code) if code else as_number(look)


def _why_code(look: ColumnLook) -> tuple[str, bool] | None:
    """Say why the values of a column are names and not amounts, and whether that is worth telling; None for amounts."""
    alone = look.distinct == look.rows >= _ALIKE
    if look.look in ("text", "date"):
        what = look.typed or {"text": "text", "date": "dates as text"}[look.look]
        if look.look == "date" and look.distinct > MANY:
            return f"{what}, {look.distinct:,} different: a column for hour or weekday says more", True
        return (f"{what}, another in each row looked at: ignore it if it names rows", True) if alone else (what, False)
    if look.look != "integer":
        return None
    if look.typed:
        return look.typed, False
    if look.padded:
        return "integers with leading zeros are codes", True
    if look.distinct > MANY and not look.has_tail:
        return f"integers of {look.distinct:,} different values are codes", True
    if _CODED.fullmatch(look.name) and look.distinct > 2:
        return "integers called so are codes", True
    if look.has_tail:
        return None
    return ("integers that lie far apart are codes", True) if look.spread >= WIDE else None


def as_category(look: ColumnLook, why: str = "as given", told: bool = False) -> ColumnStudy:
    """Take a column for a category; true and false are told apart by their numbers, however they are written."""
    recipe = Bucket(look.name, (0.5,)) if look.truth else Category(look.name)
    return ColumnStudy(look, "category", why, recipe, told)


def as_number(look: ColumnLook, given: bool = False) -> ColumnStudy:
    """Take a column for a number, scaled where it is not."""
    said = "as given, " if given else ""
    if look.has_tail:
        mean, std = _moments(np.log1p(look.numbers))
        why = f"{said}a long tail: the logarithm, standardised"
        return ColumnStudy(look, "number", why, Number(look.name, log=True, mean=mean, std=std), told=not given)
    mean, std = _moments(look.numbers)
    if not len(look.numbers) or _is_scaled(look.numbers, mean, std):
        return ColumnStudy(look, "number", f"{said}as it stands", Number(look.name))
    why = f"{said}standardised: mean {mean:g}, deviation {std:g}"
    return ColumnStudy(look, "number", why, Number(look.name, mean=mean, std=std), told=not given)


def _is_scaled(numbers: npt.NDArray[np.float64], mean: float, std: float) -> bool:
    least, most, centre, narrow, wide = _SCALED
    return bool(numbers.min() >= least and numbers.max() <= most and abs(mean) <= centre and narrow <= std <= wide)


def _moments(numbers: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and deviation in as many digits as people read."""
    if not len(numbers):
        return 0.0, 1.0
    largest = float(np.abs(numbers).max())
    unit = largest if largest > _SQUARED else 1.0  # so that no square is beyond what a number can be
    mean, std = (unit * float(moment) for moment in ((numbers / unit).mean(), (numbers / unit).std()))
    std = float(f"{std:.6g}")
    return float(f"{mean:.6g}"), std if std > 0 and math.isfinite(std) else 1.0


def _yes(values: Sequence[tuple[str, int]]) -> tuple[str, bool]:
    """Return which of two values is 1, and whether it was chosen because it is the rarer one."""
    said = [value for value, _ in values if value.lower() in _YES]
    return (said[0], False) if len(said) == 1 else (min(values, key=lambda one: (one[1], one[0]))[0], True)


def study_label(look: ColumnLook) -> ColumnStudy:
    """Make 0 and 1 of two values; leave numbers as they are."""
    if look.look in ("text", "date") and look.distinct == 2:
        value, rarer = _yes(look.values)
        why = f"1 where it is {value!r}" + (", the rarer of two values" if rarer else "")
        return ColumnStudy(look, "label", why, Match(look.name, value), told=True)
    if look.look == "integer" and (look.low, look.high) in (("-1", "1"), ("1", "2")) and look.distinct == 2:
        low, high = float(look.low), float(look.high)
        why = f"{look.low} and {look.high} become 0 and 1"
        return ColumnStudy(look, "label", why, Number(look.name, mean=low, std=high - low), told=True)
    if look.distinct == 1 and look.rows > 1:
        why = "the same in every row looked at: there is nothing to tell apart"
        return ColumnStudy(look, "label", why, Number(look.name), told=True)
    return ColumnStudy(look, "label", "as it stands", Number(look.name))
