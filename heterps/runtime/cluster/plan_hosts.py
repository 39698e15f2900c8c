"""Which workers of a plan go to which machine, where machines are rented whole."""

from __future__ import annotations

from collections.abc import Mapping

from heterps.errors import ClusterError
from heterps.planner.plan import Plan
from heterps.planner.purchases import Purchase
from heterps.runtime.cluster.many_hosts import Machine, parse_hosts
from heterps.runtime.cluster.resources import ALL, GPU

__all__ = ["plan_machines"]


def plan_machines(plan: Plan, hosts: str, roles: Mapping[str, tuple[str, ...]]) -> tuple[Machine, ...]:
    """Read hosts as :func:`parse_hosts` does; ``10.0.0.6=g6-xlarge`` is a machine with what such a one has.

    Parameters
    ----------
    plan
        What is to run; its purchases say what is in a machine.
    hosts
        Addresses. One of which nothing is said has workers of pools that are no parts of machines; where there are no
        such pools, it is the only kind of machine there is.
    roles
        Names that workers of each pool declare.
    """
    whole = {each.name: each for each in plan.purchases if each.is_machine}
    parts = {pool for each in whole.values() for pool in each.holds}
    apart = [role for pool, names in roles.items() if pool not in parts for role in names]
    words = [word.strip() for word in hosts.split(",") if word.strip()]
    if not words:
        parse_hosts(hosts)  # says so
    return tuple(machine for word in words for machine in _machines(word, whole, apart, roles))


def _machines(
    word: str, whole: Mapping[str, Purchase], apart: list[str], roles: Mapping[str, tuple[str, ...]]
) -> tuple[Machine, ...]:
    address, sign, kind = word.partition("=")
    if not sign and not apart and len(whole) == 1:
        kind = next(iter(whole))
    if kind in whole:
        return (_machine(address, whole[kind], roles),)
    if not sign and whole and not apart:
        raise ClusterError(f"host {address!r}: say which machine it is, {address}={' or '.join(whole)}")
    known = dict.fromkeys([*ALL, GPU, *(role for names in roles.values() for role in names)])
    if sign and kind not in known and "+" not in kind:
        there = ", ".join(dict.fromkeys([*whole, *known]))
        raise ClusterError(f"host {word!r}: the plan has no machine and no pool {kind!r}; there are {there}")
    return parse_hosts(word if sign or not whole else f"{address}={'+'.join(dict.fromkeys(apart))}", known)


def _machine(address: str, bought: Purchase, roles: Mapping[str, tuple[str, ...]]) -> Machine:
    there = {pool: frozenset(roles[pool]) for pool in bought.holds if pool in roles}
    pools = dict.fromkeys(role for pool in there for role in roles[pool])
    return Machine(address, tuple(pools), tuple((names, bought.holds[pool]) for pool, names in there.items()))
