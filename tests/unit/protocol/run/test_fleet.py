"""Only hosts that something happened to are looked at: what a look at all of them would place is placed."""

import copy
from collections import Counter
from typing import Any

import pytest

from heterps.protocol.run.fleet import Fleet
from heterps.simulator import hunt


def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have every placing compared with one that looks at all; return where they are counted."""
    real, seen = Fleet.place, [0]

    def place(self: Fleet, cut: int, **still: Any) -> list[Any]:
        twin = copy.deepcopy(self)
        twin._stir()
        expected = real(twin, cut, **still)
        found = real(self, cut, **still)
        assert found == expected
        seen[0] += bool(found)
        return found

    monkeypatch.setattr(Fleet, "place", place)
    return seen


def test_what_is_placed_is_what_a_look_at_all_hosts_would_place(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = compared(monkeypatch)
    found = hunt(range(20))
    assert found.failure is None, str(found.failure)
    assert seen[0] > 50


@pytest.mark.full
def test_what_is_placed_in_many_worlds_is_what_a_look_at_all_hosts_would_place(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = compared(monkeypatch)
    found = hunt(range(1_000, 2_000), everything=True)
    assert found.failure is None, str(found.failure)
    assert seen[0] > 5_000


@pytest.mark.parametrize("hosts", range(2, 9))
def test_every_worker_gets_one_primary_and_one_backup(hosts: int) -> None:
    """Of an odd number of hosts one worker got three copies and another one."""
    fleet = Fleet(hosts, shards=hosts, replicas=2, life=1)
    for number in range(hosts):
        fleet.join(f"server{number}")
    for _ in range(2):
        fleet.place(0)
        for host in fleet.hosts:
            assert host.primary is not None
            fleet.copy_ready(host.primary, host.term)
    assert Counter(worker for _, worker in fleet.places.values()) == dict.fromkeys(fleet.workers, 2)
