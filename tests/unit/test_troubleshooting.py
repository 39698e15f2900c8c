"""What the page about messages quotes is what the program says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
ROWS = [line.split(" | ")[0] for line in PAGE.splitlines() if line.startswith("| `")]
QUOTED = [piece for row in ROWS for piece in re.findall(r"`([^`]+)`", row)]


@pytest.fixture(scope="module")
def said() -> str:
    """All text of the package, with strings that go on in the next line joined."""
    text = "\n".join(path.read_text() for path in sorted((ROOT / "heterps").rglob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", text)


@pytest.mark.parametrize("piece", QUOTED, ids=str)
def test_a_quoted_message_is_said_somewhere(piece: str, said: str) -> None:
    assert piece in said


def test_something_is_quoted() -> None:
    assert len(QUOTED) > 20
