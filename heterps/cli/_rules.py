"""Rules on the command line: ``Adam`` or ``Adam:lr=0.001,beta1=0.8``."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from heterps.errors import TableError
from heterps.tables import RULES, Rule

__all__ = ["parse_rule"]


def parse_rule(text: str) -> Rule:
    """Return the rule that ``NAME[:option=value,...]`` means."""
    name, _, options = text.partition(":")
    given = _options(text, options)
    known = [field.name for field in fields(RULES[name])]
    for option in given:
        if option not in known:
            raise TableError(f"rule {text!r}: {name} has no {option!r}; it has {', '.join(known)}")
    return RULES.from_json({"kind": name, **given})


def _options(text: str, options: str) -> dict[str, Any]:
    found = {}
    for pair in filter(None, options.split(",")):
        name, sign, value = pair.partition("=")
        if not sign:
            raise TableError(f"rule {text!r}: expected NAME:option=value,option=value; {pair!r} has no value")
        try:
            found[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            raise TableError(f"rule {text!r}: {value!r} is not a number") from None
    return found
