"""Options about data that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import click

from heterps.data import READERS, Dataset, open_dataset
from heterps.data.core.data_form import DataForm
from heterps.data.core.formats import guess_format
from heterps.data.sources.given import open_known
from heterps.data.study.schema_file import read_schema
from heterps.errors import DataError, UnknownKindError

__all__ = ["Said", "data_options", "opened", "opened_as", "parse_names", "sample_options", "schema_options"]

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


def schema_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options that say what columns are, beside what is inferred; the command gets them as ``said``."""
    several = "; several, or as a,b,c"
    options = (
        click.option("--label", metavar="NAME", default="", help="Column to predict [default: y, label, click, ...]."),
        click.option("--categorical", multiple=True, metavar="NAMES", help=f"Columns to take for categories{several}."),
        click.option("--numeric", multiple=True, metavar="NAMES", help=f"Columns to take for numbers{several}."),
        click.option("--ignore", multiple=True, metavar="NAMES", help=f"Columns to leave out{several}."),
        click.option("--weight", metavar="NAME", default="", help="Column with the weight of each row."),
        click.option("--columns", multiple=True, metavar="NAMES", help="Of all columns, where no header has them."),
        click.option("--schema", metavar="FILE", help="TOML that `heterps schema` wrote: decides all columns."),
    )

    @wraps(command)
    def gathered(*args: Any, **rest: Any) -> Any:
        said = Said(**{field.name: rest.pop(field.name) for field in fields(Said)})
        return command(*args, said=said, **rest)

    found: Callable[..., Any] = gathered
    for option in reversed(options):
        found = option(found)
    return found


@dataclass(frozen=True)
class Said:
    """What the options of :func:`schema_options` say."""

    label: str = ""
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    weight: str = ""
    columns: tuple[str, ...] = ()
    schema: str | None = None

    def options(self, paths: Any, kind: str) -> dict[str, Any]:
        """Return options for the reader of a format."""
        choices: dict[str, Any] = {"label": self.label, "weight": self.weight}
        choices |= {name: parse_names(getattr(self, name)) for name in ("categorical", "numeric", "ignore")}
        choices = {name: value for name, value in choices.items() if value}
        if self.schema and choices:
            raise DataError(f"--schema decides all columns: leave out --{next(iter(choices))}, or change {self.schema}")
        given = {"fields": read_schema(self.schema)} if self.schema else choices
        given |= {"columns": parse_names(self.columns)} if self.columns else {}
        if given:
            option = "schema" if self.schema else next(iter(given))
            _check_taken(option, guess_format(paths) if kind == "auto" else kind)
        return given


def _check_taken(option: str, kind: str) -> None:
    """Refuse options for a format whose columns are fixed."""
    if option == "columns" and kind not in ("csv", "tsv", "jsonl"):
        raise DataError(f"--columns is for csv, tsv and jsonl, not for format {kind!r}")
    wanted = "fields" if option == "schema" else "label"
    taken = [name for name, reader in READERS.items() if wanted in signature(reader).parameters]
    if kind in READERS and kind not in taken:
        raise DataError(f"--{option} cannot be used with format {kind!r}: use it with {', '.join(sorted(taken))}")


def opened_as(paths: tuple[str, ...], kind: str, said: Said) -> Dataset:
    """Open what ``--data`` names with what the options say about its columns."""
    files: Any = paths[0] if len(paths) == 1 else list(paths)
    is_bundled = any(path.split(":")[0] == "adult" for path in paths)
    options = said.options(files, "adult" if is_bundled else kind)
    return open_dataset(files, kind, **options) if options else opened(paths, kind)


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
