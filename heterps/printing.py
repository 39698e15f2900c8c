"""What may be printed: names come from users and files, so nothing in a text is taken for an instruction."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return a text with everything but characters and line breaks written out: no name can move the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
