"""What a model must be like to be trained on workers' own copies, said before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from heterps.errors import PlanError
from heterps.protocol.words.modes import Mode
from heterps.runtime.batch.model import Model
from heterps.tables import SGD, DenseSpec, GroupSpec, Momentum, Rule

__all__ = ["check_copy"]

_RULES = (SGD, Momentum)


def check_copy(model: Model, mode: Mode, stages: int, own: Collection[str] | None = None) -> None:
    """Raise unless workers can train on rows of their own whose changes hosts add up; ``own`` are groups, None: all."""
    said = f"mode {mode.name!r}" if own is None else f"way 'geo:{mode.span}'"
    if stages > 1:
        what = "the whole model" if own is None else "its batches"
        raise PlanError(
            f"{said}: every worker trains {what} on rows of its own, but the plan has {stages} "
            "stages; use Plan.fused(...), or mode 'async' without it"
        )
    groups = [group for group in model.groups if own is None or group.name in own]
    for what, rule in _rules(groups, model.parameters if own is None else ()):
        if type(rule) not in _RULES:
            raise PlanError(
                f"{said}: {what} has the rule {type(rule).__name__}. Workers apply the rule to rows of "
                "their own and shard hosts only add up what changed; that keeps its meaning for SGD and Momentum. Give "
                "one of them (sparse=, dense=, --sparse, --dense, or rule= of the lookup), or use mode 'async'"
            )
    for group in groups:
        _check_rows(group, said)


def _rules(groups: Iterable[GroupSpec], dense: Iterable[DenseSpec]) -> Iterator[tuple[str, Rule]]:
    for group in groups:
        yield from ((f"table {table.name!r}", table.rule) for table in group.tables)
    yield from ((f"dense parameter {spec.name!r}", spec.rule) for spec in dense)


def _check_rows(group: GroupSpec, said: str) -> None:
    """Refuse rows that only a host can begin: a worker could not tell what they are."""
    names = ", ".join(repr(table.name) for table in group.tables)
    if group.entry is not None:
        raise PlanError(
            f"{said}: table {names} has the entry {type(group.entry).__name__}, which admits ids at the "
            "shard host; workers with rows of their own cannot wait for it. Leave it out, or use mode 'async'"
        )
    for table in group.tables:
        if table.accessor is not None and table.accessor.embed < table.dim:
            raise PlanError(
                f"{said}: columns of table {table.name!r} begin when its accessor's score is reached, "
                f"which only the shard host knows. Give the accessor embed={table.dim}, or use mode 'async'"
            )
