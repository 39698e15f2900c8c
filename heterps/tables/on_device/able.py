"""What tables on a device cannot do, each refused by name before anything is allocated."""

from __future__ import annotations

from heterps.errors import TableError
from heterps.tables.specs.rules import Rule
from heterps.tables.specs.spec import GroupSpec

__all__ = ["check_group", "no_cuda"]


def check_group(group: GroupSpec) -> None:
    """Refuse a group with something that rows on a device do not know, or with a rule that has no CUDA body."""
    reasons = {
        "an accessor": group.accessor is not None,
        "an entry": group.entry is not None,
        "dtype float16": group.dtype != "float32",
        f"when_full={group.when_full!r}": group.when_full != "refuse",
        f"create_on={group.create_on!r}": group.create_on != "pull",
    }
    for what, there in reasons.items():
        if there:
            raise TableError(f"group {group.name!r} has {what}, which rows on a device do not know; leave it on hosts")
    for table in group.tables:
        if table.rule.code < 0 and table.rule.cuda is None:
            raise no_cuda(table.rule)


def no_cuda(rule: Rule) -> TableError:
    """Return what is wrong with a rule from outside that only hosts can apply."""
    name = type(rule).__name__
    return TableError(
        f"rule {name} has no CUDA body, so its tables cannot be on a device; leave them on shard hosts or give "
        f"{name} a class attribute 'cuda' with what changes w[0:n] and s by g[0:n]"
    )
