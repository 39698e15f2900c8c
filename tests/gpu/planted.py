"""Mistakes to be planted, and modules made with one in them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

HETERPS = Path(__file__).parents[2] / "heterps"


@dataclass(frozen=True)
class Mistake:
    """A piece of a file, what it becomes, and the lane that has to find it."""

    file: str
    right: str
    wrong: str
    lane: str

    def __str__(self) -> str:
        return f"{self.lane}: {Path(self.file).name}: {self.wrong.strip()[:50] or 'without ' + self.right.strip()[:42]}"

    def text(self) -> str:
        """The file with the mistake in it."""
        text = (HETERPS / self.file).read_text()
        assert text.count(self.right) >= 1, f"{self.file} has no {self.right!r} any more"
        return text.replace(self.right, self.wrong)

    def module(self) -> ModuleType:
        """A module of its own with the mistake in it."""
        name = f"planted_{abs(hash(self))}"
        module = ModuleType(name)
        module.__file__ = str(HETERPS / self.file)
        sys.modules[name] = module  # dataclasses look their module up
        try:
            exec(compile(self.text(), f"{self.file} (planted)", "exec"), module.__dict__)
        finally:
            del sys.modules[name]
        return module
