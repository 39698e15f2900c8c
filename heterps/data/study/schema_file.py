"""Schemas as TOML: written with the reasons beside, changed by hand, read back against the fields of the recipes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from heterps.data.core.recipes import RECIPES, Recipe
from heterps.data.core.schema import KINDS, Field, Schema
from heterps.data.study.infer_schema import Study
from heterps.documents import read_text, toml_of
from heterps.errors import DataError
from heterps.fields import Found

__all__ = ["read_schema", "schema_text", "study_text"]


def study_text(study: Study) -> str:
    """Return a schema as TOML with a comment on each source column, those too that are left out."""
    why = {one.recipe: f"{one.why}; {_counts(one.look)}" for one in study.columns if one.recipe is not None}
    ignored = [f"# ignored: {_quoted(one.look.name)} ({one.why})" for one in study.columns if one.role == "ignored"]
    return schema_text(study.schema, why) + "".join(f"{line}\n" for line in ignored)


def _counts(look: Any) -> str:
    missing = f", {look.missing:,} missing" if look.missing else ""
    return f"{look.distinct:,} different in {look.rows:,} rows{missing}"


def schema_text(schema: Schema, why: Mapping[Recipe, str] | None = None) -> str:
    """Return a schema as TOML: a table for each column of batches, a line for each element."""
    parts = ["# Columns of batches, and the source columns that each element is made of.\n"]
    for column in schema:
        lines = [f"[{_key(column.name)}]", f"kind = {_quoted(column.kind)}"]
        if not column.of:
            lines.append(f"shape = {list(column.shape)}")
        elements = (f"    {_inline(recipe)},{_comment((why or {}).get(recipe))}" for recipe in column.of)
        lines += ["of = [", *elements, "]"]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _comment(text: str | None) -> str:
    return f"  # {text}" if text else ""


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _inline(value: Any) -> str:
    if isinstance(value, Recipe):
        given = {"kind": value.kind} | {
            item.name: getattr(value, item.name)
            for item in fields(value)
            if item.default is MISSING or getattr(value, item.name) != item.default
        }
        return "{ " + ", ".join(f"{name} = {_inline(one)}" for name, one in given.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def read_schema(path: str | os.PathLike[str]) -> Schema:
    """Read a schema from a TOML file; mistakes are named with their place."""
    found = toml_of(read_text(path, DataError), str(path), DataError)
    columns = tuple(_field(name, found[name]) for name in found.members())
    if not columns:
        found.fault("it names no columns; `heterps schema DATA --out FILE` writes one")
    return found.built(Schema, {"fields": columns})


def _field(name: str, found: Found) -> Field:
    found.only(("kind", "of", "shape"))
    kind = found["kind"].value
    if kind not in KINDS:
        found["kind"].refuse(f"one of {', '.join(KINDS)}")
    of = tuple(_recipe(one) for one in found.get("of", []))
    default = (len(of),) if kind in ("dense", "sparse") else ()
    shape = found["shape"].read(tuple[int, ...]) if "shape" in found.value else default
    return found.built(Field, {"name": name, "kind": kind, "shape": shape, "of": of})


def _recipe(found: Found) -> Recipe:
    kind = found["kind"]
    if kind.value not in RECIPES:
        kind.refuse(f"one of {', '.join(sorted(RECIPES))}")
    recipe, rest = RECIPES[kind.value], found.without("kind")
    if recipe is RECIPES["cross"]:
        parts = tuple(_recipe(part) for part in found["parts"])
        return rest.without("parts").make(recipe, parts=parts)
    return rest.make(recipe)
