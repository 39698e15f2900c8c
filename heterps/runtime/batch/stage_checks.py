"""What dense parameters can be all-reduced between the workers of a stage."""

from __future__ import annotations

from collections.abc import Sequence

from heterps.errors import PlanError
from heterps.kernels.program.param_layout import ParamLayout
from heterps.runtime.batch.model import Model
from heterps.tables import DenseSpec

__all__ = ["check_stage_group"]


def check_stage_group(model: Model, stages: Sequence[tuple[str, ...]], reduced: Sequence[DenseSpec]) -> None:
    """Refuse parameters of another stage than the first that computes: only its workers form a group."""
    layouts = [ParamLayout(model.lowered.graph, ops) for ops in stages]
    where = {piece.name: (i, piece.op) for i, layout in enumerate(layouts) for piece in layout}
    for spec in reduced:
        stage, op = where[spec.name]
        if stage != 1:
            raise PlanError(
                f"{spec.name!r} is all-reduced and belongs to stage {stage} of the plan, but engines all-reduce "
                "between the workers of stage 1, the first that computes: send it by its table "
                f"(--parameters '{op}=table'), "
                "or use a plan whose dense layers are in one stage"
            )
