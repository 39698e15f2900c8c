"""Roles of docstrings are no text on the documentation's site."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

HOOK = Path(__file__).parents[2] / "docs" / "roles.py"


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("roles", HOOK)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("html", "identifier", "shown"),
    [
        (":func:<code>launch</code>", "heterps.launching.launch", "launch"),
        (":meth:<code>Session.train</code>", "heterps.session.Session.train", "Session.train"),
        (":class:<code>~heterps.habits.Callback</code>", "heterps.habits.Callback", "Callback"),
        (":meth:<code>on_report</code>", "on_report", "on_report"),
        (":meth:<code>its fit &lt;heterps.session.Session.fit&gt;</code>", "heterps.session.Session.fit", "its fit"),
    ],
)
def test_a_role_becomes_a_link_that_may_miss(hook: ModuleType, html: str, identifier: str, shown: str) -> None:
    link = f'<autoref identifier="{identifier}" optional><code>{shown}</code></autoref>'
    assert hook.on_page_content(f"<p>see {html}, or not</p>") == f"<p>see {link}, or not</p>"


def test_what_is_no_role_stays(hook: ModuleType) -> None:
    plain = "<p>a: <code>b</code> :smile: func:<code>x</code></p>"
    assert hook.on_page_content(plain) == plain
