"""``heterps plan --commands``: the lines that start what a plan says."""

from __future__ import annotations

from heterps.errors import PlanError
from heterps.planner import Plan

__all__ = ["check_commands", "commands_text"]


def check_commands(commands: bool, out: str | None, hosts: str | None, certs: str | None) -> None:
    """Refuse options that belong together and are not."""
    if commands and out is None:
        raise PlanError("--commands: the commands run the saved plan; say where with --out plan.json")
    if not commands and (hosts or certs):
        raise PlanError("--hosts and --certs are for the commands of many machines: give --commands too")
    if certs and not hosts:
        raise PlanError("--certs is for many machines: give --hosts too")


def commands_text(plan: Plan, out: str | None, data: tuple[str, ...], hosts: str | None, certs: str | None) -> str:
    """Return the commands of a plan that was saved."""
    from heterps.runtime.cluster.plan_commands import plan_commands  # Dask: not for plans alone

    assert out is not None, "checked before the plan was made"
    train = [out, *(word for path in data or ("DATA",) for word in ("--data", path))]
    return plan_commands(plan, train, hosts=hosts, certs=certs)
