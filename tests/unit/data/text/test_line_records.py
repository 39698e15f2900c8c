"""Compiled parsers take records: few arguments, and no counting of references for the arrays inside."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from heterps.data.text import delimited, numeric, slot_parser
from heterps.data.text.line_records import DELIMITER, NEWLINE, NUL, PLAIN, QUOTE, line_marks

LOOPS: dict[str, Any] = {
    name: value
    for module in (delimited, numeric, slot_parser)
    for name, value in vars(module).items()
    if hasattr(value, "py_func")
}


def records_of(loop: Any) -> list[str]:
    kinds = inspect.get_annotations(loop.py_func, eval_str=True)
    return [name for name, kind in kinds.items() if hasattr(kind, "_fields")]


def test_the_parsers_are_among_the_loops_and_take_records() -> None:
    assert records_of(LOOPS["parse_rows"]) == ["text", "marks", "steps", "rows", "state"]
    assert records_of(LOOPS["parse_slots"]) == ["text", "names", "feeds", "steps", "rows", "state"]


@pytest.mark.parametrize("name", LOOPS)
def test_arguments_are_few(name: str) -> None:
    assert len(inspect.signature(LOOPS[name].py_func).parameters) <= 8


@pytest.mark.parametrize("name", [name for name, loop in LOOPS.items() if records_of(loop)])
def test_no_references_are_counted_for_what_comes_out_of_records(name: str) -> None:
    assert LOOPS[name].targetoptions.get("_nrt") is False


def test_without_quoting_a_quote_is_plain_and_nul_is_looked_for_once_more() -> None:
    quoted, plain = line_marks(",", '"', trim=True), line_marks("\t")
    assert [quoted.classes[ord(c)] for c in ',\n\0"a'] == [DELIMITER, NEWLINE, NUL, QUOTE, PLAIN]
    assert plain.classes[ord('"')] == PLAIN
    assert (bytes(quoted.marks), quoted.trim) == (b',\n"', True)
    assert (bytes(plain.marks), plain.trim) == (b"\t\n\0", False)
