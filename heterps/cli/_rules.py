"""Rules on the command line: ``Adam`` or ``Adam:lr=0.001,beta1=0.8``."""

from __future__ import annotations

import json
from typing import Any

from heterps.errors import HeterpsError, TableError
from heterps.tables import RULES, Rule

__all__ = ["parse_rule"]


def parse_rule(text: str) -> Rule:
    """Return the rule that ``NAME[:option=value,...]`` means."""
    name, _, options = text.partition(":")
    try:
        return RULES.from_json({"kind": name, **_options(text, options)})
    except HeterpsError:
        raise
    except TypeError as error:
        raise TableError(f"rule {text!r}: {str(error).partition(') ')[2] or error}") from None


def _options(text: str, options: str) -> dict[str, Any]:
    found = {}
    for pair in filter(None, options.split(",")):
        name, sign, value = pair.partition("=")
        if not sign:
            raise TableError(f"rule {text!r}: expected NAME:option=value,option=value; {pair!r} has no value")
        try:
            found[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            raise TableError(f"rule {text!r}: {value!r} is not a number") from None
    return found
