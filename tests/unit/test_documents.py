"""What the documents say exists: names, modules, links, settings, pictures."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import heterps

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
DOTTED = re.compile(r"\bheterps(?:\.[A-Za-z_][\w-]*)+(?<!-)")
SHORT = re.compile(r"\bhps((?:\.[A-Za-z_]\w*)+)")


def settings() -> set[str]:
    """The keys of the heterps namespace of Dask's configuration, whole and in part."""
    values = yaml.safe_load((ROOT / "heterps/runtime/config.yaml").read_text())["heterps"]

    def walk(found: dict, before: str) -> Iterator[str]:
        for key, value in found.items():
            yield f"{before}{key}"
            if isinstance(value, dict):
                yield from walk(value, f"{before}{key}.")

    return {f"heterps.{key}" for key in walk(values, "")}


def missing(text: str) -> list[str]:
    """Return the names below heterps that a text mentions and that nobody can import."""
    names = [found.group() for found in DOTTED.finditer(text)]
    names += ["heterps" + found.group(1) for found in SHORT.finditer(text)]
    known = settings()
    return sorted({name for name in names if name not in known and not exists(name)})


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one (what follows a method's name is not asked)."""
    found: object = heterps
    path = "heterps"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        if hasattr(found, part):
            found = getattr(found, part)
        elif hasattr(found, "__path__") and importlib.util.find_spec(path):
            found = importlib.import_module(path)
        else:
            return callable(found) and not isinstance(found, type)
    return True


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_name_in_a_document_exists(page: Path) -> None:
    assert missing(page.read_text()) == []


def test_a_name_that_does_not_exist_is_found() -> None:
    text = "`hps.lunch(plan)`, heterps.runtime.crew, `hps.launch(plan)`, heterps.timeouts.call, hps.Plan.fused(x)"
    assert missing(text) == ["heterps.lunch", "heterps.runtime.crew"]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """What headings of a page are called in links, as Markdown's table of contents has it."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*\.md)?#([^)\s]+)\)", page.read_text())
    assert [link for link in links if link[1] not in anchors(page.parent / link[0] if link[0] else page)] == []


def test_every_setting_is_described() -> None:
    text = (ROOT / "docs/cluster.md").read_text()
    leaves = {key for key in settings() if not any(other.startswith(key + ".") for other in settings())}
    assert [key for key in sorted(leaves) if f"`{key.removeprefix('heterps.')}`" not in text] == []


@pytest.mark.parametrize("package", ["data", "kernels", "planner", "protocol", "runtime", "tables"])
def test_the_layout_names_every_room(package: str) -> None:
    text = (ROOT / "docs/layout.md").read_text()
    rooms = [folder.name for folder in (ROOT / "heterps" / package).iterdir() if (folder / "__init__.py").exists()]
    assert [room for room in sorted(rooms) if f"`{package}/{room}/`" not in text] == []


def test_the_page_of_tables_names_every_file() -> None:
    text = (ROOT / "docs/tables.md").read_text()
    files = [path.name for path in (ROOT / "heterps/tables").rglob("*.py") if path.name != "__init__.py"]
    assert [name for name in sorted(files) if f"`{name}`" not in text] == []


def test_pictures_are_those_of_the_code() -> None:
    from docs.moves import TITLES, moves_svg
    from docs.pictures import PICTURES

    for name, draw in PICTURES.items():
        assert (ROOT / "docs" / name).read_text() == draw(), f"docs/{name} is old: run python docs/pictures.py"
    for name in TITLES:
        drawn = (ROOT / "docs" / f"{name}.svg").read_text()
        assert drawn == moves_svg(name), f"docs/{name}.svg is old: run python -m docs.moves"


def test_every_file_that_a_page_names_exists() -> None:
    folders = ("heterps", "tests", "docs", "examples", "graphs", "benchmarks")
    there = {path.name for folder in folders for path in (ROOT / folder).rglob("*.py")}
    for page in PAGES:
        named = set(re.findall(r"`(?:[\w/]*/)?(\w+\.py)\b", page.read_text()))
        assert sorted(named - there) == [], page


def test_hardware_on_the_planner_page_can_be_read(tmp_path: Path) -> None:
    (text,) = re.findall(r'```toml title="everything.toml"\n(.*?)```', (ROOT / "docs/planner.md").read_text(), re.S)
    (tmp_path / "hw.toml").write_text(text)
    assert {"cpu", "v100", "l4"} <= {pool.name for pool in heterps.Hardware.from_toml(tmp_path / "hw.toml").pools}
