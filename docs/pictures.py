"""Draw the two pictures of docs/architecture.md from the code: ``python docs/pictures.py`` writes them anew.

``packages.svg``: the packages in the layers of ``pyproject.toml``, and who imports whom. ``batch.svg``: the phases of a
batch, and the methods that are timed under each. A test compares both with what is in the repository.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "heterps"
OF_PROGRAMS = ("gather", "scatter")  # parts of a phase that a Program times itself
STYLE = (
    "text{font:13px sans-serif;fill:#1b2530}.small{font-size:11px;fill:#55636f}.head{font-weight:bold}"
    ".box{fill:#f3f6f9;stroke:#8796a5}.lane{fill:#fbfcfd;stroke:#d5dde4}.own{fill:#8796a5}.dot{fill:#5b8cc0}"
    ".part{fill:#fff;stroke:#8796a5;stroke-dasharray:3 2}"
    ".edge{stroke:#7890a8;fill:none;marker-end:url(#tip)}"
)
TIP = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
TIP += '<path d="M0 0 8 4 0 8z" fill="#7890a8"/></marker>'


def svg(width: float, height: float, title: str, body: list[str]) -> str:
    """Return a picture."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" role="img">'
    parts = [head, f"<title>{escape(title)}</title><style>{STYLE}</style><defs>{TIP}</defs>"]
    return "\n".join([*parts, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    """Return a line of text around, or from, a point."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    """Return a rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" class="{kind}"/>'


# --- packages


def layers() -> list[list[str]]:
    """Return the packages of the import contract, from the top; each line of it is a layer."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    lines = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip(" ()").removeprefix("heterps.") for name in line.split("|")] for line in lines]


def files_of(package: str) -> list[Path]:
    """Return the files of a package or of a single module."""
    single = PACKAGE / f"{package}.py"
    return [single] if single.exists() else sorted((PACKAGE / package).rglob("*.py"))


def imported_by(path: Path) -> Iterator[str]:
    """Yield the packages that a file imports, also inside functions, but not what only types need."""
    for found in walk(ast.parse(path.read_text())):
        names = []
        if isinstance(found, ast.ImportFrom) and found.module:
            names = [found.module] if found.module != "heterps" else [f"heterps.{alias.name}" for alias in found.names]
        elif isinstance(found, ast.Import):
            names = [alias.name for alias in found.names]
        yield from (name.split(".")[1] for name in names if name.startswith("heterps."))


def walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield everything but what stands under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from walk(child)


def imports() -> set[tuple[str, str]]:
    """Return who imports whom."""
    known = [package for layer in layers() for package in layer]
    found = {(a, b) for a in known for path in files_of(a) for b in imported_by(path)}
    return {(a, b) for a, b in found if a != b and b in known}


def packages_svg() -> str:
    """Draw a table: a row says whom a package imports; nothing stands below the diagonal."""
    names = [package for layer in layers() for package in layer]
    left, top, cell = 110, 90, 28
    size = cell * len(names)
    body = [text(left - 12, 30, "imports \u2192", "small", "end")]
    for i, package in enumerate(names):
        at = top + cell * i
        body += [box(left, at, size, cell, "lane"), text(left - 12, at + 19, package, "head", "end")]
        body.append(turned(left + cell * (i + 0.6), top - 8, package))
        body.append(box(left + cell * i, at, cell, cell, "own"))
    for a, b in sorted(imports()):
        x, y = left + cell * (names.index(b) + 0.5), top + cell * (names.index(a) + 0.5)
        body.append(f'<circle cx="{x:g}" cy="{y:g}" r="8" class="dot"/>')
    return svg(left + size + 60, top + size + 14, "Packages of heterps and their imports", body)


def turned(x: float, y: float, words: str) -> str:
    """Return a line of text that rises from a point."""
    return f'<text transform="translate({x:g} {y:g}) rotate(-50)">{escape(words)}</text>'


# --- the walk of a batch


def timed() -> dict[str, dict[str, list[str]]]:
    """Return the methods that run under each phase: ``{phase: {class: [method]}}``."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted((PACKAGE / "runtime").rglob("*.py")):
        for cls in (c for c in ast.parse(path.read_text()).body if isinstance(c, ast.ClassDef)):
            for method in (m for m in cls.body if isinstance(m, ast.FunctionDef)):
                for phase in phases_in(method):
                    methods = found.setdefault(phase, {}).setdefault(cls.name, [])
                    if method.name not in methods:
                        methods.append(method.name)
    return found


def phases_in(method: ast.FunctionDef) -> Iterator[str]:
    """Yield the phases that a method names where it starts a timer, or takes parts out of one."""
    for call in (c for c in ast.walk(method) if isinstance(c, ast.Call) and c.args):
        called, first = ast.unparse(call.func), call.args[0]
        if re.search(r"\bphases$", called) and isinstance(first, ast.Constant):
            yield str(first.value)
        elif called.endswith("phases.carve"):
            yield from (str(key.value) for key in first.keys) if isinstance(first, ast.Dict) else OF_PROGRAMS


def batch_svg() -> str:
    """Draw a row for each phase, in the order of a batch, and a lane for each class that does something in it."""
    from heterps.runtime.batch.phases import PARTS, PHASES, WAITING

    found = timed()
    order = [phase for phase in PHASES if phase != WAITING]
    lanes = sorted({cls for phase in order for cls in found.get(phase, {})}, key=lambda c: (_first(c, found, order), c))
    left, wide, row = 130, 220, 50
    height = 60 + row * len(order)
    body = [box(left + wide * i + 4, 10, wide - 8, height - 16, "lane") for i in range(len(lanes))]
    body += [text(left + wide * (i + 0.5), 32, lane, "head") for i, lane in enumerate(lanes)]
    body.append(f'<path class="edge" d="M18 60V{height - 20}"/>')
    for level, phase in enumerate(order):
        y = 48 + row * level
        body.append(text(left - 14, y + 20, phase, "head", "end"))
        if phase in PARTS:
            body.append(text(left - 14, y + 34, f"inside {PARTS[phase]}", "small", "end"))
        for lane, methods in sorted(found.get(phase, {}).items()):
            x = left + wide * lanes.index(lane) + 12
            body.append(box(x, y, wide - 24, 40, "part" if phase in PARTS else "box"))
            body.append(text(x + (wide - 24) / 2, y + 24, ", ".join(methods), "small"))
    return svg(left + wide * len(lanes) + 10, height, "The walk of a batch", body)


def _first(cls: str, found: dict[str, dict[str, list[str]]], order: list[str]) -> int:
    return min(i for i, phase in enumerate(order) if cls in found.get(phase, {}))


PICTURES = {"packages.svg": packages_svg, "batch.svg": batch_svg}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (ROOT / "docs" / name).write_text(draw())
