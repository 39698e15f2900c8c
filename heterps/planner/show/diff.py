"""What differs between two plans."""

from __future__ import annotations

from heterps.planner.plan import Plan, Stage
from heterps.planner.show.figures import bytes_text, count_text, money_text
from heterps.planner.show.short import depth_text, ways_text

__all__ = ["Change", "diff"]

Change = tuple[str, str, str]


def diff(a: Plan, b: Plan) -> list[Change]:
    """Return (what, in a, in b) for everything that differs, decisions before forecasts."""
    rows = _decisions(a, b) + _stages(a, b) + _forecasts(a, b)
    return [row for row in rows if row[1] != row[2]]


def _decisions(a: Plan, b: Plan) -> list[Change]:
    names = ("batch_size", "shard_hosts", "shard_pool", "replicas", "lanes")
    rows = [(name.replace("_", " "), str(getattr(a, name)), str(getattr(b, name))) for name in names]
    rows.append(("depth", depth_text(a), depth_text(b)))
    rows.append(("mode", _mode(a), _mode(b)))
    rows.append(("parameters", ways_text(a) or "by table", ways_text(b) or "by table"))
    rows.append(("to rent", _rented(a), _rented(b)))
    rows.append(("model", _model(a, a), _model(a, b)))
    return rows


def _mode(plan: Plan) -> str:
    """The mode in words; depth has a line of its own."""
    given = {name: value for name, value in plan.mode.to_json().items() if name not in ("mode", "depth")}
    return ", ".join([plan.mode.name, *(f"{name} {value}" for name, value in given.items())])


def _rented(plan: Plan) -> str:
    return ", ".join(each.text(plan.workers) for each in plan.purchases)


def _model(first: Plan, plan: Plan) -> str:
    return "same" if plan.graph == first.graph else f"another graph of {len(plan.graph)} ops"


def _stages(a: Plan, b: Plan) -> list[Change]:
    rows = [("stages", " | ".join(s.name for s in a.stages), " | ".join(s.name for s in b.stages))]
    pools = dict.fromkeys([*a.units, *b.units])
    rows += [(f"workers of {pool}", str(a.units.get(pool, 0)), str(b.units.get(pool, 0))) for pool in pools]
    return rows + _moved(a, b)


def _moved(a: Plan, b: Plan) -> list[Change]:
    """Where ops are, a row for all that moved alike."""
    by_places: dict[tuple[str, str], list[str]] = {}
    for op in dict.fromkeys(op for plan in (a, b) for stage in plan.stages for op in stage.ops):
        by_places.setdefault((_where(a, op), _where(b, op)), []).append(op)
    return [(f"op{'s' if len(ops) > 1 else ''} {', '.join(ops)}", *places) for places, ops in by_places.items()]


def _where(plan: Plan, op: str) -> str:
    stage: Stage | None = next((stage for stage in plan.stages if op in stage.ops), None)
    return "-" if stage is None else " + ".join(stage.workers)


def _forecasts(a: Plan, b: Plan) -> list[Change]:
    if a.forecast is None or b.forecast is None:
        return []
    figures = [
        ("rows/s", count_text(a.forecast.rows_per_second), count_text(b.forecast.rows_per_second)),
        ("bottleneck", a.forecast.bottleneck, b.forecast.bottleneck),
        ("price an hour", money_text(a.forecast.price_per_hour), money_text(b.forecast.price_per_hour)),
        (
            "price per million rows",
            money_text(a.forecast.price_per_million_rows),
            money_text(b.forecast.price_per_million_rows),
        ),
    ]
    pools = dict.fromkeys([*a.memory_bytes, *b.memory_bytes])
    memory = [
        (f"memory of {p}", bytes_text(a.memory_bytes.get(p, 0)), bytes_text(b.memory_bytes.get(p, 0))) for p in pools
    ]
    return figures + memory
