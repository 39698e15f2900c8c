"""Options about data that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from heterps.data import READERS, Dataset
from heterps.data.core.data_form import DataForm
from heterps.data.sources.given import open_known
from heterps.errors import DataError, UnknownKindError

__all__ = ["data_options", "opened", "parse_names", "sample_options"]

_F = TypeVar("_F", bound=Callable[..., Any])


def data_options(command: _F) -> _F:
    """Add ``--data``, which must be given, and ``--format``."""
    return _options(command, "", required=True)


def sample_options(purpose: str) -> Callable[[_F], _F]:
    """Add ``--data``, which need not be given, and ``--format``; ``purpose`` says what the data is looked at for."""
    return lambda command: _options(command, f"{purpose} ", required=False)


def _options(command: _F, purpose: str, required: bool) -> _F:
    formats = ", ".join(sorted(READERS))
    data = click.option(
        "--data",
        required=required,
        multiple=True,
        metavar="PATH",
        help=f"{purpose}File, glob, folder or URL; may be given several times. adult:train and adult:test are bundled.",
    )
    kind = click.option(
        "--format", "kind", default="auto", show_default=True, metavar="NAME", help=f"Of the data: auto, {formats}."
    )
    return data(kind(command))


def opened(paths: tuple[str, ...], kind: str, form: DataForm | None = None) -> Dataset:
    """Open what ``--data`` or ``--valid`` names, as ``form`` says where a model remembers its data."""
    if kind != "auto" and kind not in READERS:
        raise UnknownKindError(f"no data format is called {kind!r}; there are auto, {', '.join(sorted(READERS))}")
    if len(paths) == 1:
        return open_known(paths[0], form, kind)
    if any(path.split(":")[0] == "adult" for path in paths):
        raise DataError("the bundled data is one of adult:train and adult:test, and not mixed with files")
    return open_known(list(paths), form, kind)


def parse_names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Turn ``--metric auc --metric logloss`` or ``--metric auc,logloss`` into names."""
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())
