"""What a value may be, said once by the annotations of a dataclass; held against files and against arguments alike.

A :class:`Found` is a value together with the way to it (``plan.json: stages[2].units``). ``found.make(cls)`` builds a
dataclass of it: keys, types and ranges follow from the annotations, which may carry a :class:`Range`. ``check_fields``
holds the fields of a finished value against the same annotations, so that a constructor and a file refuse the same.
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from heterps.errors import HeterpsError

__all__ = [
    "Count",
    "Finite",
    "Found",
    "Fraction",
    "Natural",
    "NotNegative",
    "Positive",
    "Range",
    "Seed",
    "check_fields",
    "field_hints",
    "required_fields",
    "shown",
]

T = TypeVar("T")
_SHOWN = 60  # characters of a wrong value that a message repeats


@dataclass(frozen=True)
class Range:
    """Limits of a number; one that has limits is finite."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def holds(self, value: Any) -> bool:
        """Whether a number lies within."""
        return (
            math.isfinite(value)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        limits = {"of at least": self.at_least, "above": self.above, "of at most": self.at_most, "below": self.below}
        return " and ".join(f"{words} {limit}" for words, limit in limits.items() if limit is not None)


Count = Annotated[int, Range(at_least=1)]
Finite = Annotated[float, Range()]
Natural = Annotated[int, Range(at_least=0)]
Seed = Annotated[int, Range(at_least=0, below=1 << 64)]
Positive = Annotated[float, Range(above=0)]
NotNegative = Annotated[float, Range(at_least=0)]
Fraction = Annotated[float, Range(at_least=0, at_most=1)]


@dataclass(frozen=True)
class Found:
    """A value of a document and the way to it.

    Parameters
    ----------
    value
        Plain data: what JSON or TOML gave.
    error
        What a mistake is raised as.
    root, way
        The document (a file's name, or what it is), and the place in it.
    """

    value: Any
    error: type[HeterpsError]
    root: str = ""
    way: str = ""

    @classmethod
    def of(cls, value: Any, error: type[HeterpsError], root: str) -> Found:
        """Wrap plain data; what is wrapped already keeps its place."""
        return replace(value, error=error) if isinstance(value, Found) else cls(value, error, root)

    @property
    def place(self) -> str:
        """Where the value stands, in words."""
        return f"{self.root}: {self.way}" if self.root and self.way else self.root or self.way

    def refuse(self, expected: str) -> NoReturn:
        """Raise what was expected here."""
        raise self.error(f"{self.place} is {shown(self.value)}, expected {expected}")

    def fault(self, message: str) -> NoReturn:
        """Raise a message that begins with the place."""
        raise self.error(f"{self.place}: {message}" if self.place else message)

    def members(self) -> Mapping[str, Any]:
        """Return the value as an object with names for keys."""
        if not isinstance(self.value, Mapping):
            self.refuse("an object")
        for key in self.value:
            if not _is_text(key):
                self.fault(f"the key {shown(key)} is not text")
        return self.value

    def __getitem__(self, key: str) -> Found:
        if not isinstance(self.value, Mapping):
            self.refuse("an object")
        if key not in self.value:
            raise self.error(f"{self.place or 'it'} lacks {shown(key)}" + _near(key, self.value))
        return Found(self.value[key], self.error, self.root, f"{self.way}.{key}" if self.way else key)

    def get(self, key: str, default: Any) -> Found:
        """Return what stands under a key, or a default in its place."""
        return self[key] if key in self.members() else Found(default, self.error, self.root, f"{self.way}.{key}")

    def __iter__(self) -> Iterator[Found]:
        if not _is_list(self.value):
            self.refuse("a list")
        return (Found(value, self.error, self.root, f"{self.way}[{i}]") for i, value in enumerate(self.value))

    def without(self, *keys: str) -> Found:
        """Leave keys out that were read already."""
        return replace(self, value={key: value for key, value in self.members().items() if key not in keys})

    def only(self, known: Sequence[str]) -> Found:
        """Refuse keys that nobody knows."""
        for key in self.members():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {shown(near[0])}?" if near else f"known: {', '.join(known) or 'none'}"
                raise self.error(f"{self.place or 'it'} has {shown(key)}, which is not known; {hint}")
        return self

    def read(self, hint: Any) -> Any:
        """Return the value as an annotation has it: lists as tuples, objects as dataclasses."""
        return _read(self, hint)

    def make(self, kind: type[T], **given: Any) -> T:
        """Build a dataclass from an object that names its fields; ``given`` fields do not stand in it."""
        hints = field_hints(kind)
        known = [name for name in hints if name not in given]
        self.only(known)
        required = required_fields(kind)
        values = {name: self[name].read(hints[name]) for name in known if name in self.value or name in required}
        return self.built(kind, {**given, **values})

    def built(self, kind: Callable[..., T], values: Mapping[str, Any]) -> T:
        """Call a constructor; what it refuses is said with the place."""
        try:
            return kind(**values)
        except HeterpsError as error:
            raise type(error)(f"{self.place}: {error}" if self.place else str(error)) from None


def check_fields(value: Any, error: type[HeterpsError], root: str) -> None:
    """Hold the fields of a dataclass against their annotations, to be called at its making."""
    for name, hint in field_hints(type(value)).items():
        _read(Found(getattr(value, name), error, root, name), hint)


def field_hints(kind: type) -> Mapping[str, Any]:
    """Return the annotations of the fields that a dataclass is made of; any value fits one that cannot be resolved."""
    return _hints_of(kind)


def required_fields(kind: type) -> frozenset[str]:
    """Return the names of fields without a default."""
    return _required_of(kind)


@functools.cache
def _required_of(kind: Any) -> frozenset[str]:
    return frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)


@functools.cache
def _hints_of(kind: Any) -> Mapping[str, Any]:
    names = [f.name for f in fields(kind) if f.init]
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError:
        hints = {}
    return {name: hints.get(name, Any) for name in names}


def shown(value: Any) -> str:
    """Return a value as a message repeats it: as JSON, cut short, on one line."""
    if isinstance(value, Mapping):
        return f"an object of {len(value)}" if value else "an empty object"
    if isinstance(value, (list, tuple)) and len(value) > 4:
        return f"a list of {len(value)}"
    try:
        text = json.dumps(value, default=repr)
    except (ValueError, RecursionError):  # a number of very many digits; lists in lists in lists
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _near(key: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(key, [str(name) for name in known], n=1)
    return f"; it has {shown(near[0])}" if near else ""


def _is_text(value: Any) -> bool:
    """Half of a surrogate pair is no character: it could not be printed."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


# --- reading by annotation


def _read(found: Found, hint: Any) -> Any:
    hint, limits = _limited(hint)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(found, hint)
    if origin is Literal:
        return _literal(found, hint)
    if origin is tuple:
        return _list(found, hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        each = typing.get_args(hint)[1]
        return {key: _read(found[key], each) for key in found.members()}
    if hint in _PLAIN:
        return _PLAIN[hint](found, limits)
    return _instance(found, hint)


def _limited(hint: Any) -> tuple[Any, Range | None]:
    if typing.get_origin(hint) is not Annotated:
        return hint, None
    hint, *notes = typing.get_args(hint)
    return hint, next((note for note in notes if isinstance(note, Range)), None)


def _whole(found: Found, limits: Range | None) -> int:
    value = found.value
    if isinstance(value, bool) or not isinstance(value, Integral):
        found.refuse(_words(int, limits))
    number = int(value)
    if not -(1 << 63) <= number < 1 << 64:
        found.refuse("a whole number of 64 bits")
    if limits is not None and not limits.holds(number):
        found.refuse(_words(int, limits))
    return number


def _number(found: Found, limits: Range | None) -> float:
    value = found.value
    if isinstance(value, bool) or not isinstance(value, Real):
        found.refuse(_words(float, limits))
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        found.refuse("a number of at most 308 digits")
    if math.isnan(number) or (limits is not None and not limits.holds(number)):
        found.refuse(_words(float, limits, finite=math.isinf(number)))
    return number


def _text(found: Found, limits: Range | None) -> str:
    return str(found.value) if _is_text(found.value) else found.refuse("text")


def _truth(found: Found, limits: Range | None) -> bool:
    return found.value if isinstance(found.value, bool) else found.refuse("true or false")


def _nothing(found: Found, limits: Range | None) -> None:
    return None if found.value is None else found.refuse("null")


def _anything(found: Found, limits: Range | None) -> Any:
    return tuple(found.value) if isinstance(found.value, list) else found.value


_PLAIN: Mapping[Any, Any] = {
    int: _whole,
    float: _number,
    str: _text,
    bool: _truth,
    type(None): _nothing,
    Any: _anything,
    object: _anything,
}


def _literal(found: Found, hint: Any) -> Any:
    allowed = typing.get_args(hint)
    if not any(type(found.value) is type(one) and found.value == one for one in allowed):
        found.refuse(_words(hint))
    return found.value


def _list(found: Found, hint: Any) -> tuple[Any, ...]:
    each = typing.get_args(hint)
    if each == (str, Ellipsis) and _is_list(found.value) and all(map(_is_text, found.value)):
        return tuple(map(str, found.value))  # thousands of names, in a plan of thousands of ops
    items = list(found)
    if len(each) == 2 and each[1] is Ellipsis:
        return tuple(_read(item, each[0]) for item in items)
    if len(items) != len(each):
        found.refuse(f"a list of {len(each)}")
    return tuple(_read(item, one) for item, one in zip(items, each, strict=True))


def _one_of(found: Found, hint: Any) -> Any:
    """Take the first form that fits; where the value is an object, what is wrong inside it is the better message."""
    forms = typing.get_args(hint)
    inner = None
    for form in forms:
        try:
            return _read(found, form)
        except HeterpsError as error:
            inner = error if isinstance(found.value, (Mapping, list, tuple)) and _takes(form, found.value) else inner
    if inner is not None:
        raise inner
    found.refuse(" or ".join(dict.fromkeys(_words(form) for form in forms)))


def _takes(form: Any, value: Any) -> bool:
    origin = typing.get_origin(form) or form
    return _is_list(value) if origin is tuple else isinstance(origin, type) and origin not in _PLAIN


def _instance(found: Found, hint: Any) -> Any:
    """Take an instance as it is; read anything else as the class says, or by its fields."""
    if not isinstance(hint, type) or isinstance(found.value, hint):
        return found.value
    if issubclass(hint, Enum):
        values = [one.value for one in hint]
        return hint(found.value) if found.value in values else found.refuse("one of " + ", ".join(map(shown, values)))
    if hasattr(hint, "from_found"):
        return hint.from_found(found)
    if is_dataclass(hint) and isinstance(found.value, Mapping):
        return found.make(hint)
    found.refuse(_words(hint))


def _words(hint: Any, limits: Range | None = None, finite: bool = False) -> str:
    """Say what an annotation asks for."""
    if limits is None:
        hint, limits = _limited(hint)
    known = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    origin = typing.get_origin(hint)
    if hint in known:
        words = known[hint] if not finite else "a finite number"
        return f"{words} {limits}".rstrip() if limits else words
    if origin is Literal:
        allowed = typing.get_args(hint)
        return ("one of " if len(allowed) > 1 else "") + ", ".join(map(shown, allowed))
    if origin is tuple:
        return "a list"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "an object"
    return f"a {hint.__name__.lower()}" if isinstance(hint, type) else "something else"
