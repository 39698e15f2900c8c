"""Pages that are walks: their files are written, and their commands run, in an empty folder and in their order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.walking import BLOCK, Walk, commands, programs

ROOT = Path(__file__).parents[2]
NAMED = (ROOT / "docs" / f"{name}.md" for name in ("extending", "migration", "own_data", "planner"))
WALKS = sorted([*(ROOT / "docs/tutorials").glob("*.md"), *NAMED])
IDS = [page.stem for page in WALKS]


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", WALKS, ids=IDS)
def test_a_page_is_walked_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    if "\ncurl" in page.read_text() and not shutil.which("curl"):
        pytest.skip("curl is not installed")
    if page.stem == "extending":
        shutil.copytree(ROOT / "examples/extending", tmp_path, dirs_exist_ok=True)
    Walk(tmp_path).along(page.read_text())


@pytest.mark.parametrize("page", WALKS, ids=IDS)
def test_every_program_of_a_walk_is_one_that_is_run(page: Path) -> None:
    """A block without a title is run by nobody: ``py`` marks what is only shown."""
    blocks = BLOCK.findall(page.read_text())
    assert [text for kind, title, text in blocks if kind in ("python", "toml") and not title] == []
    lines = [line for kind, _, text in blocks if kind == "sh" for line in commands(text)]
    assert {line.split()[0] for line in lines if line} <= {*programs(""), "pip"}
    for _, title, text in blocks:
        if title.endswith(".py"):
            compile(text, title, "exec")
