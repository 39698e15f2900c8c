"""Names that must be unique or must mirror: run by ``make lint``, prints what is wrong and ends with 1."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def repeated(places: Iterable[tuple[str, Path]]) -> Iterator[str]:
    """Yield a line for every name that stands in several places."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in places:
        found[name].append(str(path))
    for name, paths in sorted(found.items()):
        if len(paths) > 1:
            yield f"{name}: in {' and '.join(sorted(paths))}"


def classes(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the classes of the package: who reads a name must know which one is meant."""
    for path in sorted((root / "heterps").rglob("*.py")):
        for found in ast.parse(path.read_text()).body:
            if isinstance(found, ast.ClassDef):
                yield f"class {found.name}", path.relative_to(root)


def decisions(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the numbers of the architecture decisions: others refer to them."""
    for path in sorted((root / "docs/adr").glob("*.md")):
        yield f"ADR {path.name.split('-')[0]}", path.relative_to(root)


def astray(root: Path) -> Iterator[str]:
    """Yield tests in a room's folder that are not about a file of that room."""
    for path in sorted((root / "tests/unit").glob("*/*/test_*.py")):
        package, room, name = path.relative_to(root / "tests/unit").parts
        mirrored = root / "heterps" / package / room / name.removeprefix("test_")
        if not mirrored.exists():
            there = mirrored.relative_to(root)
            yield f"{path.relative_to(root)}: there is no {there}; a test of several files lies in tests/unit/{package}"


def problems(root: Path = ROOT) -> list[str]:
    """Return everything that is wrong."""
    return [*repeated(classes(root)), *repeated(decisions(root)), *astray(root)]


if __name__ == "__main__":
    wrong = problems()
    print("\n".join(wrong) if wrong else "names are unique, and tests mirror files")
    sys.exit(bool(wrong))
