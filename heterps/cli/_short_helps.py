"""What ``heterps --help`` says of each command, read from its file: importing it would import everything."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import click

__all__ = ["described"]


def described(name: str, source: str) -> click.Command:
    """Return a command that knows its helps alone, from the text of the module with the function ``command``."""
    for defined in ast.parse(source).body:
        if isinstance(defined, ast.FunctionDef) and defined.name == "command":
            return click.Command(name, help=ast.get_docstring(defined), short_help=next(_said(defined), None))
    raise ValueError(f"heterps/cli/{name}.py has no function called command")


def _said(defined: ast.FunctionDef) -> Iterator[str]:
    """Yield what decorators are told as ``short_help``."""
    for decorator in defined.decorator_list:
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg == "short_help" and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)
