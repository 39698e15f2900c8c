"""Slot text, the log formats of the large parameter servers.

Three styles of a line, all separated by white space:

- ``"name:value"``: ``click:0 dense_feature:0.5 dense_feature:0.1 1:737395 2:210498``
- ``"value:name"``: ``0:1 4351255118977467729:3 16543128959394097760:29``
- ``"counted"``: per slot, in the order of the schema, a count and that many values: ``1 0 3 10 11 12``
  (what their data generators print)

A recipe's source is a slot; ``"dense_feature[2]"`` is its third value on a line. Ragged columns take all values of
a slot. Slots the schema does not name are passed over; a missing number is 0, a missing id is 0 (or ``Id(missing=)``);
a line without its label is bad (unless ``Number(missing=)`` says what it is then).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from heterps.data.core.bad import BadRows
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.dataset import Source
from heterps.data.core.files import expand, open_bytes
from heterps.data.core.recipes import Categories, Id, Ids, Number, Recipe
from heterps.data.core.schema import Field, Schema, dense, label, ragged, sparse
from heterps.data.core.split import Piece
from heterps.data.sources.pipe import opener_of
from heterps.data.text.delimited import BAD, ROOM
from heterps.data.text.delimited_text import Paths
from heterps.data.text.line_files import PipedFiles
from heterps.data.text.line_records import TextBlock, new_line_state
from heterps.data.text.lines import Lines, LineSource
from heterps.data.text.recipe_steps import compile_steps
from heterps.data.text.slot_parser import (
    COUNTED,
    NAME_VALUE,
    REASONS,
    VALUE_NAME,
    SlotFeeds,
    parse_slots,
    slot_feeds,
    slot_names,
)
from heterps.errors import DataError

__all__ = ["SlotText", "slot_text"]

Style = Literal["name:value", "value:name", "counted"]
_STYLES: dict[str, int] = {"name:value": NAME_VALUE, "value:name": VALUE_NAME, "counted": COUNTED}
_INDEXED = re.compile(r"(.*)\[(\d+)\]")


def _slot_of(source: str) -> tuple[str, int]:
    found = _INDEXED.fullmatch(source)
    return (found[1], int(found[2])) if found else (source, 0)


@dataclass(frozen=True, kw_only=True)
class SlotText(PipedFiles):
    """Slot text files; use :func:`slot_text` to make one."""

    style: Style = "name:value"

    def __post_init__(self) -> None:
        if self.style not in _STYLES:
            raise DataError(f"slot text style {self.style!r} is none of {', '.join(_STYLES)}")

    def open(self, pieces: tuple[Piece, ...], bad: BadRows) -> Source:
        """Start parsing pieces."""
        return _SlotSource(self, pieces, bad)

    def reading(self) -> dict[str, Any]:
        """Return how lines are cut."""
        return {"style": self.style}

    def select(self, *names: str) -> SlotText:
        """Keep some batch columns only (not for counted text, where every slot takes its place on the line)."""
        if self.style == "counted":
            raise DataError("counted slot text cannot leave out columns: the schema says what the line holds")
        return replace(self, fields=self.fields.select(*names))


@dataclass
class _Layout:
    """Which columns and lists each slot feeds."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    feeds: SlotFeeds
    fixed: Schema


def _layout(fields: Schema) -> _Layout:
    recipes = [(column, recipe) for column in fields for recipe in column.of]
    widths: dict[str, int] = {}
    lists: dict[str, tuple[int, Recipe]] = {}
    ragged_names = [column.name for column in fields if column.kind == "ragged"]
    for column, recipe in recipes:
        for source in recipe.sources:
            slot, index = _slot_of(source)
            if column.kind == "ragged":
                widths.setdefault(slot, 0)
                if slot in lists:
                    raise DataError(f"slot {slot!r} feeds two ragged columns; use one")
                lists[slot] = (ragged_names.index(column.name), recipe)
            else:
                widths[slot] = max(widths.get(slot, 0), index + 1)
    return _place(fields, widths, lists)


def _place(fields: Schema, widths: dict[str, int], lists: dict[str, tuple[int, Recipe]]) -> _Layout:
    table: list[list[int]] = []
    salts: list[int] = []
    columns: list[str] = []
    for slot, width in widths.items():
        number, recipe = lists.get(slot, (-1, None))
        hashed = isinstance(recipe, Categories)
        table.append([len(columns), width, number, int(hashed)])
        salts.append(recipe.salt if recipe is not None and hashed else 0)
        columns += [slot if i == 0 else f"{slot}[{i}]" for i in range(width)]
    fixed = Schema(tuple(column if column.kind != "ragged" else replace(column, of=()) for column in fields))
    return _Layout(tuple(widths), tuple(columns), slot_feeds(table, salts), _with_defaults(fixed))


def _with_defaults(fields: Schema) -> Schema:
    """A slot may be absent from a line: its id is then 0. ``slot[0]`` is ``slot``."""
    return Schema(tuple(replace(column, of=tuple(_default(recipe) for recipe in column.of)) for column in fields))


def _default(recipe: Recipe) -> Recipe:
    source = vars(recipe).get("source", "")
    if source.endswith("[0]"):
        recipe = replace(recipe, source=source[:-3])  # type: ignore[call-arg]
    if isinstance(recipe, Id) and recipe.missing is None:
        return replace(recipe, missing=0)
    return recipe


class _SlotSource(LineSource):
    def __init__(self, text: SlotText, pieces: tuple[Piece, ...], bad: BadRows) -> None:
        super().__init__(pieces, bad, text.block_bytes, opener_of(text.pipe_command, text.pipe_timeout))
        self.layout = layout = _layout(text.fields)
        self.steps = compile_steps(layout.fixed, layout.columns, text.labels)
        self.names = slot_names(_STYLES[text.style], layout.names)
        self.state = new_line_state(len(layout.columns), len(self.steps.table))

    def parse(self, lines: Lines, rows: RowBuffers, row: int, end: int) -> int:
        text, steps = TextBlock(lines.buffer, lines.pos, lines.end), self.steps.bind(rows)
        how, lines.pos, row = parse_slots(
            text, row, end, self.names, self.layout.feeds, steps, rows.arrays(), self.state
        )
        if how == ROOM:
            rows.grow_lists()
        elif how == BAD:
            self._count_bad_line(int(row))
        return int(row)

    def _count_bad_line(self, row: int) -> None:
        code, begin, end, place, is_column = (int(v) for v in self.state.where)
        names = self.layout.columns if is_column else self.layout.names
        reason = REASONS[code]
        detail = f"{reason} in slot {names[place]!r}" if place >= 0 else reason
        self.count_bad(begin, end, detail, reason, row)


def slot_text(paths: Paths, fields: Schema | None = None, *, style: Style = "name:value", **options: Any) -> SlotText:
    """Read slot text.

    Parameters
    ----------
    paths
        A path, glob, folder or URL, or several.
    fields
        The schema; for ``name:value`` text it can be inferred from the first lines: slots called click or label are the
        label, slots with decimal points are dense, others ids (one a line: sparse, several: a ragged column each).
    style
        See :mod:`heterps.data.text.slot_text`.
    **options
        Fields of :class:`SlotText` and :class:`~heterps.data.core.dataset.Dataset`, such as ``pipe_command``.

    Examples
    --------
    >>> fields = Schema.of(ragged("s29", Ids("29")), ragged("s105", Ids("105")), label("y", Number("1")))
    >>> slot_text("part-*", fields, style="value:name")  # doctest: +SKIP
    """
    files = expand(paths)
    options = {"guessed": fields is None} | options
    if fields is None:
        if style != "name:value":
            raise DataError(f"the schema of {style} text cannot be inferred: give fields=Schema.of(...)")
        fields = _infer(files[0])
    return SlotText(paths=files, fields=fields, style=style, **options)


def _infer(path: str) -> Schema:
    with open_bytes(path) as file:
        head = file.read_exactly(1 << 18).decode("utf-8", "replace")
    lines = [[token.partition(":") for token in line.split()] for line in head.splitlines()[:-1] or [head]]
    most: dict[str, int] = {}
    decimal: set[str] = set()
    for line in lines:
        for name in dict.fromkeys(token[0] for token in line):
            most[name] = max(most.get(name, 0), sum(token[0] == name for token in line))
        decimal |= {name for name, _, value in line if "." in value}
    if not most:
        raise DataError(f"cannot infer a schema: {path} has no tokens; give fields=Schema.of(...)")
    return _schema_of_slots(most, decimal)


def _schema_of_slots(most: dict[str, int], decimal: set[str]) -> Schema:
    target = next((name for name in ("click", "label") if name in most), "")
    numbers = [name for name in most if name in decimal and name != target]
    single = [name for name in most if name not in decimal and most[name] == 1 and name != target]
    several = [name for name in most if name not in decimal and most[name] > 1 and name != target]
    fields: list[Field] = [ragged(name, Ids(name)) for name in several]
    if single:
        fields.append(sparse("ids", *(Id(name, missing=0) for name in single)))
    if numbers:
        fields.append(dense("x", *(Number(f"{name}[{i}]") for name in numbers for i in range(most[name]))))
    if target:
        fields.append(label("y", Number(target)))
    return Schema(tuple(fields))
