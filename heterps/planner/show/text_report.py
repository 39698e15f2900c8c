"""A plan as text: which stages, why, how busy, what it costs, how well that is proved, on what it rests."""

from __future__ import annotations

import io
import math

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from heterps.planner.costs.forecast import Certificate, Cost, Forecast
from heterps.planner.plan import Plan, Stage
from heterps.planner.show.figures import (
    bytes_text,
    count_text,
    counted_text,
    money_text,
    part_text,
    percent_text,
    seconds_text,
)
from heterps.planner.show.short import lanes_text, ways_text
from heterps.planner.show.shortfall import shortfall_texts
from heterps.screen import Screen

__all__ = [
    "data_sheet_note",
    "machine_ratio",
    "price_text",
    "purchases_text",
    "render",
    "report_text",
    "star_of",
    "verdict",
]


def report_text(plan: Plan, width: int = 110) -> str:
    """Return the report as plain text."""
    out = io.StringIO()
    Screen(file=out, width=width, color_system=None, legacy_windows=False).print(render(plan))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def render(plan: Plan, job: str = "") -> RenderableType:
    """Return the report for a rich console, with what a whole job takes where that was asked for."""
    parts: list[RenderableType] = [_headline(plan), _stages(plan)]
    if plan.forecast is not None:
        parts += [_parts(plan, plan.forecast), _memory(plan, plan.forecast), _money(plan, plan.forecast)]
    if job:
        parts.append(Text(f"{job}\n"))
    if plan.certificate is not None:
        parts.append(_proof(plan.certificate))
    if plan.rivals:
        parts.append(_rivals(plan))
    if plan.assumptions:
        parts.append(Text("Assumptions\n" + "\n".join(f"  - {text}" for text in plan.assumptions)))
    return Group(*parts)


def machine_ratio(plan: Plan) -> str:
    """Workers by pool as the smallest whole numbers, for example ``5 cpu : 1 gpu``."""
    divisor = math.gcd(*plan.units.values())
    return " : ".join(f"{units // divisor} {pool}" for pool, units in plan.units.items())


def purchases_text(plan: Plan) -> tuple[str, ...]:
    """What is rented for a plan, where more comes with it than single units."""
    if not any(each.is_whole for each in plan.purchases):
        return ()
    return (", ".join(each.text(plan.workers) for each in plan.purchases),)


def price_text(forecast: Forecast) -> str:
    """What an hour costs, and for what: ``$11.00 an hour (cpu $4.08, gpu $4.20, shard hosts $2.72)``."""
    parts = ", ".join(f"{name} {money_text(price)}" for name, price in forecast.price_parts.items())
    return f"{money_text(forecast.price_per_hour)} an hour ({parts})"


def verdict(certificate: Certificate) -> str:
    """How good a plan is known to be, in words."""
    if not certificate.is_proof:
        return "not proved"
    return "proved optimal in the model" if certificate.gap < 1e-9 else f"gap {percent_text(certificate.gap)}"


def _headline(plan: Plan) -> Text:
    shape = "one fused stage" if plan.is_fused else f"{len(plan.stages)} stages"
    lines = [f"Plan: {shape}, batches of {plan.batch_size:,}, {lanes_text(plan)}, {plan.mode.name} mode"]
    if plan.mode.adds:
        lines.append(
            "  the forecast is that of async mode: workers with rows of their own exchange less, which is not modelled"
        )
    if plan.parameters:
        lines.append(f"  parameters: {ways_text(plan)}")
    if any(pool.emulated for pool in plan.pools):
        lines.append("emulated: a pool tagged GPU runs NumPy")
    if plan.forecast is not None:
        star = "*" if plan.forecast.data_sheet else ""
        lines.append(f"  {count_text(plan.forecast.rows_per_second)} rows/s{star}, bound by {plan.forecast.bottleneck}")
        lines += [f"  {text}" for text in (*data_sheet_note(plan), *shortfall_texts(plan))]
    workers = ", ".join(f"{units} {pool}" for pool, units in plan.units.items())
    ratio = f" (ratio {machine_ratio(plan)})" if len(plan.units) > 1 else ""
    hosts = "1 shard host" if plan.shard_hosts == 1 else f"{plan.shard_hosts} shard hosts"
    copies = f", {plan.replicas} copies of each" if plan.replicas > 1 else ""
    lines.append(f"  workers: {workers}{ratio}; {hosts} on {plan.shard_pool}{copies}")
    lines += [f"  to rent: {text}" for text in purchases_text(plan)]
    return Text("\n".join(lines) + "\n")


def _stages(plan: Plan) -> Table:
    table = Table(title="Stages", title_justify="left", show_lines=len(plan.stages) > 1)
    for heading in ("stage", "pool", "units", "layers", "ops"):
        table.add_column(heading, justify="right" if heading == "units" else "left", overflow="fold")
    for heading in ("busy", "could do", "bound by"):
        table.add_column(heading, justify="left" if heading == "bound by" else "right")
    forecasts = {} if plan.forecast is None else {stage.stage: stage for stage in plan.forecast.stages}
    for stage in plan.stages:
        known = forecasts.get(stage.name)
        figures = (
            (
                f"{percent_text(known.busy)}{star_of(plan, stage.name)}",
                f"{count_text(known.rows_per_second)}/s{star_of(plan, stage.name)}",
                known.limit,
            )
            if known
            else ("",) * 3
        )
        table.add_row(stage.name, *_pools(stage), ", ".join(stage.layers), str(len(stage.ops)), *figures)
    return table


def _pools(stage: Stage) -> tuple[str, str]:
    names = [stage.pool, *(f"{share.pool} ({percent_text(share.share)})" for share in stage.also)]
    return " + ".join(names), " + ".join(str(units) for units in stage.workers.values())


def star_of(plan: Plan, stage: str) -> str:
    """Return the mark of figures that rest on a GPU's data sheet; they do where a stage runs on such a pool."""
    known = () if plan.forecast is None else plan.forecast.data_sheet
    pools = next(s.workers for s in plan.stages if s.name == stage)
    return "*" if any(pool in known for pool in pools) else ""


def data_sheet_note(plan: Plan) -> tuple[str, ...]:
    """Return what the mark means, where there is one."""
    pools = () if plan.forecast is None else plan.forecast.data_sheet
    return (f"* rates of {', '.join(pools)}: data sheet, not measured",) if pools else ()


def _parts(plan: Plan, forecast: Forecast) -> Table:
    table = Table(title="Time of one batch on one unit, by part", title_justify="left")
    names = [
        name for name in vars(Cost()) if name.endswith("_s") and any(getattr(s.cost, name) for s in forecast.stages)
    ]
    for heading in ("stage", *(name.removesuffix("_s") for name in names), "bytes moved"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    for stage in forecast.stages:
        star = star_of(plan, stage.stage)
        times = (part_text(getattr(stage.cost, name), star) for name in names)
        table.add_row(stage.stage, *times, bytes_text(stage.cost.network_bytes))
    return table


def _memory(plan: Plan, forecast: Forecast) -> Table:
    table = Table(title="Memory and links", title_justify="left")
    for heading in ("what", "figure", "basis"):
        table.add_column(heading, overflow="fold")
    for pool, bytes_ in plan.memory_bytes.items():
        table.add_row(
            f"memory of a worker of {pool}",
            bytes_text(bytes_),
            f"has {bytes_text(plan.pool(pool).device.memory_bytes)}",
        )
    for each in forecast.tables:
        table.add_row(
            f"rows {each.group}", f"{count_text(each.rows)} rows, {bytes_text(each.bytes)}, {each.tier}", each.basis
        )
    for link, rate in forecast.link_bytes_per_s.items():
        table.add_row(f"link {link}", f"{bytes_text(rate)}/s", "")
    table.add_row("shard hosts", f"{percent_text(forecast.shard_busy)} busy", "")
    return table


def _money(plan: Plan, forecast: Forecast) -> Text:
    if not forecast.price_per_hour:
        return Text("Price: nothing; what the plan uses has none\n")
    per_million = money_text(forecast.price_per_million_rows) + ("*" if forecast.data_sheet else "")
    return Text(f"Price: {price_text(forecast)}; {per_million} per million rows\n")


def _proof(certificate: Certificate) -> Text:
    head = f"Proof: {certificate.objective} {certificate.value:,.6g}, bound {certificate.bound:,.6g}"
    solves = counted_text(certificate.solves, "solve")
    effort = f"{certificate.solver}, {solves}, {seconds_text(certificate.seconds)}"
    return Text(f"{head}: {verdict(certificate)} ({certificate.proof}; {effort})\n")


def _rivals(plan: Plan) -> Table:
    table = Table(title="What lost, and why", title_justify="left")
    for heading in ("plan", "$ / million rows", "rows/s", "why"):
        table.add_column(heading, justify="left" if heading in ("plan", "why") else "right", overflow="fold")
    for rival in plan.rivals:
        price = "" if rival.price_per_million_rows is None else f"{rival.price_per_million_rows:.4g}"
        speed = "" if rival.rows_per_second is None else count_text(rival.rows_per_second)
        table.add_row(rival.name, price, speed, rival.why)
    return table
