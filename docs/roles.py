"""A hook of the documentation's build: roles of docstrings, such as :func:`launch`, become links where the name is on a
page, else the name alone.
"""

from __future__ import annotations

import re
from typing import Any

import heterps

_ROLE = re.compile(
    r":(?:func|class|meth|mod|data|attr|exc):<code>"
    r"(?:(?P<title>[^<&]+?)\s+&lt;)?(?P<short>~?)(?P<name>[\w.]+)(?:&gt;)?</code>"
)


def on_page_content(html: str, **_: Any) -> str:
    """Take the roles out of a page that is made from Markdown; links are found later, when all pages are known."""
    return _ROLE.sub(_link, html)


def _link(role: re.Match[str]) -> str:
    name = role["name"]
    shown = role["title"] or (name.rpartition(".")[2] if role["short"] else name)
    return f'<autoref identifier="{_full(name)}" optional><code>{shown}</code></autoref>'


def _full(name: str) -> str:
    """Return where a public name is defined: pages list it under that."""
    first, _, rest = name.partition(".")
    found = getattr(heterps, first, None)
    if first == "heterps" or not hasattr(found, "__qualname__"):
        return name
    return ".".join(filter(None, (found.__module__, found.__qualname__, rest)))
