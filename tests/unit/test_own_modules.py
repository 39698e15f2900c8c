"""Which modules travel as code: those that only the program at hand has."""

import importlib
import pickle
import sys
from pathlib import Path

import pytest

import heterps
from heterps.own_modules import NotPythonError, carried, import_file, is_own, sent_with_code


def test_files_beside_the_program_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests_beside.py").write_text("def f(): return 7")
    (tmp_path / "tests_package").mkdir()
    (tmp_path / "tests_package" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    beside, package = importlib.import_module("tests_beside"), importlib.import_module("tests_package")
    assert not is_own("tests_beside")  # found somewhere on the path: others may have it too
    monkeypatch.chdir(tmp_path)
    assert is_own("tests_beside")
    assert not is_own(package.__name__)
    body = carried(beside.f)
    monkeypatch.delitem(sys.modules, "tests_beside")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(tmp_path)])
    assert pickle.loads(body)() == 7


def test_a_package_that_is_run_as_a_program_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """``python -m heterps``, or Dask's scheduler: the program's folder is that of an installed package."""
    program = str(Path(heterps.__path__[0]) / "__main__.py")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", program, raising=False)
    assert not is_own("heterps")
    assert is_own("__main__")


def test_a_file_is_run_as_a_module_that_dataclasses_find(tmp_path: Path) -> None:
    (tmp_path / "side.py").write_text("VALUE = 3.0")
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom side import VALUE\n"
    (tmp_path / "mine.py").write_text(f"{text}@dataclass\nclass Mine:\n    x: float = VALUE\n")
    before = list(sys.path)
    module = import_file(tmp_path / "mine.py", "tests_mine")
    assert (module.Mine().x, sys.path, is_own("tests_mine")) == (3.0, before, True)
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        import_file(tmp_path / "broken.py", "tests_broken")
    assert "tests_broken" not in sys.modules
    with pytest.raises(NotPythonError, match="is not a Python file"):
        import_file(tmp_path / "mine.txt", "tests_text")


class Value:
    """Something that travels with its code."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __reduce__(self) -> tuple[object, ...]:
        return sent_with_code(self, vars(self))


def test_what_comes_back_to_where_it_was_sent_from_is_what_it_was() -> None:
    value = Value(3)
    sent = pickle.dumps(value)
    assert pickle.loads(sent) is value
    del value  # else it is made anew
    assert pickle.loads(sent).x == 3
