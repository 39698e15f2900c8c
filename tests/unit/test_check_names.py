"""The check of names that ``make lint`` runs finds what it is there for."""

from pathlib import Path

from tests.check_names import problems


def test_the_repository_is_in_order() -> None:
    assert problems() == []


def test_what_is_planted_is_found(tmp_path: Path) -> None:
    for name, text in {
        "heterps/data/core/a.py": "class Part: ...",
        "heterps/tables/b.py": "class Part: ...\ndef f():\n    class Part: ...",
        "docs/adr/0001-one.md": "",
        "docs/adr/0001-two.md": "",
        "tests/unit/data/core/test_a.py": "",
        "tests/unit/data/core/test_b.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert problems(tmp_path) == [
        "class Part: in heterps/data/core/a.py and heterps/tables/b.py",
        "ADR 0001: in docs/adr/0001-one.md and docs/adr/0001-two.md",
        "tests/unit/data/core/test_b.py: there is no heterps/data/core/b.py; "
        "a test of several files lies in tests/unit/data",
    ]
