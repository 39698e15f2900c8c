"""Readers by name, and which modules a program that asks for one of them has imported."""

from __future__ import annotations

from typing import Any

import pytest

import heterps.data
from heterps.data.core.formats import READERS
from heterps.data.core.reader_table import ReaderTable


def test_a_reader_is_imported_when_it_is_asked_for() -> None:
    table: Any = ReaderTable({"dumps": "json:dumps", "broken": "heterps.no_such_module:read"})
    assert table["dumps"]([1]) == "[1]"
    assert "broken" in table
    assert "another" not in table
    assert (sorted(table), len(table)) == (["broken", "dumps"], 2)
    with pytest.raises(ModuleNotFoundError):
        table["broken"]
    with pytest.raises(KeyError):
        table["another"]


def test_what_is_put_there_goes_before_the_packages_own_and_can_be_taken_out() -> None:
    table: Any = ReaderTable({"dumps": "json:dumps"})
    table["dumps"] = table["mine"] = dict
    assert table["dumps"] is dict
    del table["dumps"], table["mine"]
    assert not table
    with pytest.raises(KeyError):
        del table["dumps"]


def test_every_reader_and_every_name_of_the_package_is_there() -> None:
    assert all(callable(reader) for reader in READERS.values())
    assert {name for name in heterps.data.__all__ if getattr(heterps.data, name, None) is None} == set()
    with pytest.raises(AttributeError, match=r"module 'heterps.data' has no attribute 'parket'; it has .*, parquet,"):
        _ = heterps.data.parket
