"""Names of a package that are imported when they are first used."""

from typing import Any

import pytest

from heterps.later import names_later


def test_a_name_is_imported_once_and_an_unknown_one_refused_with_those_there_are() -> None:
    scope: dict[str, Any] = {}
    imported = names_later("shop", {"sqrt": "math", "dumps": "json"}, scope)
    assert imported("sqrt")(9) == 3
    assert list(scope) == ["sqrt"], "found without asking from now on"
    with pytest.raises(AttributeError, match="module 'shop' has no attribute 'root'; it has dumps, sqrt"):
        imported("root")
