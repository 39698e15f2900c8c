"""What happened lately, for error messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

__all__ = ["Story", "brief"]


class Story:
    """The last events with the phase they met and what followed. Text is made only when somebody asks."""

    def __init__(self, length: int = 60) -> None:
        self._entries: deque[tuple[int, str, Any, tuple[Any, ...]]] = deque(maxlen=length)
        self._count = 0

    def add(self, phase: str, event: Any, instructions: Sequence[Any]) -> None:
        """Remember one event."""
        self._count += 1
        self._entries.append((self._count, phase, event, tuple(instructions)))

    def __str__(self) -> str:
        lines = []
        for number, phase, event, instructions in self._entries:
            lines.append(f"{number:6d} {phase:9s} {event}")
            lines += [f"{'':16s} -> {brief(instruction)}" for instruction in instructions]
        return "\n".join(lines)


def brief(value: Any) -> str:
    """Return a value's text without the long parts (layouts, nested stories)."""
    fields = getattr(value, "_fields", None) or value.__dataclass_fields__
    names = [name for name in fields if name not in ("layout", "story", "owned", "snapshot", "floor")]
    return f"{type(value).__name__}({', '.join(f'{name}={getattr(value, name)!r}' for name in names)})"
