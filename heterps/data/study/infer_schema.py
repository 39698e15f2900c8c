"""A schema from some of the rows: numbers become ``x``, categories ``ids``, the label ``y``; each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heterps.data.core.recipes import Number
from heterps.data.core.schema import Field, Schema, dense, label, sparse, weight
from heterps.data.study.choices import Choices
from heterps.data.study.column_study import (
    ColumnLook,
    ColumnStudy,
    as_category,
    as_number,
    is_number,
    look_at_text,
    study_feature,
    study_label,
)
from heterps.errors import DataError

__all__ = ["LABEL_NAMES", "Study", "infer_text", "remarks_on", "study_columns"]

LABEL_NAMES = (
    "y", "label", "click", "target", "clicked", "is_click", "is_clicked", "is_attributed", "converted", "conversion",
)  # fmt: skip
_NOTED = 8  # columns that a line names


@dataclass(frozen=True, eq=False)
class Study:
    """Every source column with what it is taken for, and the schema that follows."""

    columns: tuple[ColumnStudy, ...]
    remarks: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """The columns of a batch: ``ids``, ``x``, ``y`` and ``weight``, as far as there are some."""
        fields: list[Field] = []
        for name, role, make in _FIELDS:
            of = [study.recipe for study in self.columns if study.role == role and study.recipe is not None]
            fields += [make(name, *of)] if of else []
        return Schema(tuple(fields))

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each thing that was decided and may surprise."""
        told: dict[tuple[str, str], list[str]] = {}
        for study in self.columns:
            if study.told:
                told.setdefault((study.role, _general(study.why)), []).append(study.look.name)
        return (*(_note(role, why, names) for (role, why), names in told.items()), *self.remarks)


_FIELDS: tuple[tuple[str, str, Callable[..., Field]], ...] = (
    ("ids", "category", sparse),
    ("x", "number", dense),
    ("y", "label", label),
    ("weight", "weight", weight),
)


def _general(why: str) -> str:
    """Standardised columns are told together."""
    return "standardised" if why.startswith("standardised") else why


def _note(role: str, why: str, names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_NOTED])
    rest = f" and {len(names) - _NOTED} more" if len(names) > _NOTED else ""
    what = {"category": "a category", "number": "a number", "label": "the label", "ignored": "ignored"}[role]
    return f"{shown}{rest}: {what} ({why})"


def study_columns(looks: Iterable[ColumnLook], choices: Choices) -> Study:
    """Decide what each column is taken for."""
    known = {look.name: look for look in looks}
    choices.check(known)
    target = choices.label or _label_among(known, choices)
    given: dict[str, Callable[[ColumnLook], ColumnStudy]] = {
        target: study_label,
        choices.weight: _as_weight,
        **dict.fromkeys(choices.categorical, as_category),
        **dict.fromkeys(choices.numeric, lambda look: as_number(look, given=True)),
        **dict.fromkeys(choices.ignore, lambda look: ColumnStudy(look, "ignored", "as given")),
    }
    given.pop("", None)  # nobody was named; a column may have no name
    columns = tuple(given.get(name, study_feature)(look) for name, look in known.items())
    return Study(columns, _remarks_on_digits(columns))


def _remarks_on_digits(columns: Iterable[ColumnStudy]) -> tuple[str, ...]:
    """Say so where ids were floats before they came to us, and are so large that floats do not tell them apart."""
    names = [study.look.name for study in columns if study.look.is_rounded and study.is_code]
    if not names:
        return ()
    what = "holds floats" if len(names) == 1 else "hold floats"
    return (
        f"{', '.join(map(repr, names))} {what} beyond 2^53: ids that large lost their last digits when they became "
        "floats (pandas makes floats of integers where some are missing); read them as Int64 or text",
    )


def _label_among(columns: Iterable[str], choices: Choices) -> str:
    """Return the column called as labels are, the likeliest name first, whatever its case."""
    taken = {choices.weight, *choices.categorical, *choices.numeric, *choices.ignore}
    by_name = {name.lower(): name for name in columns if name not in taken}
    return next((by_name[name] for name in LABEL_NAMES if name in by_name), "")


def _as_weight(look: ColumnLook) -> ColumnStudy:
    return ColumnStudy(look, "weight", "as given", Number(look.name))


def remarks_on(header: Sequence[str]) -> tuple[str, ...]:
    """Say so where a line of names looks like one of data."""
    if 3 * sum(is_number(name) for name in header) < len(header):
        return ()
    shown = ", ".join(header[:4])
    return (f"the first line ({shown}, ...) looks like data: name the columns (--columns) if it is no header",)


def infer_text(
    rows: Sequence[Sequence[str]], columns: Sequence[str], where: str, choices: Choices, remarks: tuple[str, ...] = ()
) -> Study:
    """Study rows of text.

    Parameters
    ----------
    rows
        Cells of some lines; lines with another number of cells than there are columns are passed over.
    columns
        Their names.
    where
        The file, for messages.
    choices
        What the user says.
    remarks
        What is to be told besides.
    """
    whole = [row for row in rows if len(row) == len(columns)]
    if not whole:
        found = f"none of the {len(rows):,} rows looked at has {len(columns)} columns" if rows else "it has no rows"
        raise DataError(f"cannot infer a schema from {where}: {found}; check the file, or give fields=Schema.of(...)")
    cells: Any = list(zip(*whole, strict=True))
    try:
        study = study_columns((look_at_text(name, cells[i]) for i, name in enumerate(columns)), choices)
    except DataError as error:  # a line of data was taken for the header, perhaps
        raise DataError("; ".join([str(error), *remarks])) from None
    return replace(study, remarks=(*study.remarks, *remarks))
