"""The garbage collector keeps out while much is made that stays."""

import gc
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from heterps.keeping import keeping


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    was = gc.isenabled()
    gc.enable()
    yield
    gc.unfreeze()
    (gc.enable if was else gc.disable)()


def test_nothing_is_collected_meanwhile_and_all_of_it_is_old_afterwards() -> None:
    collections = sum(each["collections"] for each in gc.get_stats())
    with keeping():
        made = [[number] for number in range(100_000)]
        assert sum(each["collections"] for each in gc.get_stats()) == collections
        young = sum(map(len, map(gc.get_objects, (0, 1))))
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert sum(map(len, map(gc.get_objects, (0, 1)))) < 1_000 < len(made) < young


def test_what_nobody_needs_is_still_found() -> None:
    class Gone(SimpleNamespace):
        """Needs itself."""

    with keeping():
        one = Gone()
        one.itself = one
        del one
    gc.collect()
    assert not any(isinstance(each, Gone) for each in gc.get_objects())


def test_a_collector_that_was_off_stays_off_and_so_it_is_within_another() -> None:
    with keeping():
        with keeping():
            pass
        assert not gc.isenabled(), "the outer one ends it"
    gc.disable()
    with keeping():
        pass
    assert not gc.isenabled()


def test_what_a_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with keeping():
        pass
    assert gc.get_freeze_count() >= frozen > 0
    assert gc.isenabled()


def test_an_error_switches_it_on_again() -> None:
    with pytest.raises(ValueError, match="no"), keeping():
        raise ValueError("no")
    assert gc.isenabled()
