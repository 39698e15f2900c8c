"""A plan as one self-contained HTML page: no scripts, no network, pictures inline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from heterps.planner.costs.forecast import Cost, Forecast
from heterps.planner.plan import Plan
from heterps.planner.show.charts import draw_frontier, draw_split, draw_timeline
from heterps.planner.show.explain import Explanation, LayerNote
from heterps.planner.show.figures import (
    bytes_text,
    count_text,
    counted_text,
    money_text,
    part_text,
    percent_text,
    seconds_text,
)
from heterps.planner.show.short import lanes_text
from heterps.planner.show.shortfall import shortfall_texts
from heterps.planner.show.text_report import (
    data_sheet_note,
    machine_ratio,
    price_text,
    purchases_text,
    star_of,
    verdict,
)
from heterps.simulator.timed.play import Played
from heterps.stages import Layers

__all__ = ["report_html"]

_STYLE = """
body{font:15px/1.45 Helvetica,Arial,sans-serif;color:#1a202c;max-width:960px;margin:32px auto;padding:0 20px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:34px 0 10px}p.sub{color:#4a5568;margin:0 0 18px}
.cards{display:flex;flex-wrap:wrap;gap:12px}
.card{border:1px solid #e2e8f0;border-radius:8px;padding:10px 16px;min-width:110px}
.card b{display:block;font-size:20px}.card span{color:#4a5568;font-size:12.5px}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{text-align:left;padding:6px 10px 6px 0;border-bottom:1px solid #e2e8f0;vertical-align:top}
th{color:#4a5568;font-weight:600}td.n,th.n{text-align:right;white-space:nowrap}
.table{overflow-x:auto}
.meter{background:#e2e8f0;border-radius:4px;height:8px;width:80px;display:inline-block;margin-right:8px}
.meter i{display:block;height:8px;border-radius:4px;background:#2b6cb0}
.figure{overflow-x:auto;border:1px solid #e2e8f0;border-radius:8px;padding:10px}.figure+p.sub{margin-top:8px}
@media(min-width:900px){.figure svg{max-width:100%;height:auto}}
li{margin:3px 0}.warn{background:#fffaf0;border:1px solid #ed8936;border-radius:8px;padding:8px 14px;margin:12px 0}
"""


def report_html(
    plan: Plan,
    layers: Layers,
    frontier: Sequence[tuple[float, float]] = (),
    explanation: Explanation | None = None,
    title: str = "Plan",
    played: Played | None = None,
    job: str = "",
) -> str:
    """Return the page; ``frontier`` as :func:`heterps.planner.frontier` gives it, ``job`` what a whole job takes."""
    body = [f"<h1>{escape(title)}</h1>", f'<p class="sub">{escape(_subtitle(plan))}</p>']
    if any(pool.emulated for pool in plan.pools):
        body.append('<div class="warn">Emulated: a pool tagged GPU runs NumPy; its times mean nothing for a GPU.</div>')
    body += [f'<div class="warn">{escape(text)}</div>' for text in shortfall_texts(plan)]
    if plan.forecast is not None:
        body.append(_cards(plan, plan.forecast) + (f"<p>{escape(job)}</p>" if job else ""))
    body += [_section("Stages", _stages(plan)), _section("The split graph", _figure(draw_split(plan, layers)))]
    if plan.forecast is not None:
        counted = _counts_units(plan.forecast, frontier)
        chosen = (plan.forecast.rows_per_second, _bought(plan) if counted else plan.forecast.price_per_hour)
        picture = draw_frontier(frontier, chosen, "units" if counted else "price an hour")
        body += [
            _section("Price against throughput", _figure(picture) + _frontier_note(counted)),
            _section("The pipeline over time", _figure(draw_timeline(plan, played))),
            _section("Time of one batch on one unit", _times(plan, plan.forecast)),
            _section("Memory, tables, links and price", _memory(plan, plan.forecast)),
        ]
    body += [_section("Proof", _proof(plan)), _section("What lost, and why", _rivals(plan))]
    if explanation is not None:
        body.append(_section("Why it is so", _explanation(explanation)))
    body.append(_section("Assumptions", "<ul>" + "".join(f"<li>{escape(a)}</li>" for a in plan.assumptions) + "</ul>"))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _subtitle(plan: Plan) -> str:
    shape = "one fused stage" if plan.is_fused else f"{len(plan.stages)} stages"
    return f"{shape}, batches of {plan.batch_size:,} rows, {lanes_text(plan)}, {plan.mode.name} mode"


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>{body}" if body else ""


def _figure(svg: str) -> str:
    return f'<div class="figure">{svg}</div>'


def _cards(plan: Plan, forecast: Forecast) -> str:
    star = "*" if forecast.data_sheet else ""
    ratio = f", ratio {machine_ratio(plan)}" if len(plan.units) > 1 else ""
    figures = [
        (f"{count_text(forecast.rows_per_second)}{star}", "rows a second"),
        (_workers(plan), f"workers{ratio}"),
        (str(plan.shard_hosts), f"shard hosts on {plan.shard_pool}"),
        (forecast.bottleneck, "bottleneck"),
    ]
    if forecast.price_per_hour:
        figures.insert(1, (money_text(forecast.price_per_hour), "an hour"))
        figures.insert(2, (money_text(forecast.price_per_million_rows) + star, "per million rows"))
    figures += [(text, "to rent") for text in purchases_text(plan)]
    cards = (f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in figures)
    return f'<div class="cards">{"".join(cards)}</div>'


def _workers(plan: Plan) -> str:
    return ", ".join(f"{units} {pool}" for pool, units in plan.units.items())


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """A table; cells are HTML already."""
    mark = [' class="n"' if i in numeric else "" for i in range(len(headings))]
    head = "".join(f"<th{mark[i]}>{escape(h)}</th>" for i, h in enumerate(headings))
    lines = ("<tr>" + "".join(f"<td{mark[i]}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="table"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _stages(plan: Plan) -> str:
    known = {} if plan.forecast is None else {stage.stage: stage for stage in plan.forecast.stages}
    rows = []
    for stage in plan.stages:
        pools = " + ".join(f"{units} × {escape(pool)}" for pool, units in stage.workers.items())
        shares = "".join(f"<br>{percent_text(s.share)} of the batches on {escape(s.pool)}" for s in stage.also)
        row = [f"<b>{escape(stage.name)}</b>", pools + shares, escape(", ".join(stage.layers)), str(len(stage.ops))]
        if stage.name in known:
            figures = known[stage.name]
            star = star_of(plan, stage.name)
            could = f"{count_text(figures.rows_per_second)}/s{star}"
            row += [_meter(figures.busy) + star, could, escape(figures.limit)]
        rows.append(row)
    headings = ["stage", "workers", "layers", "ops", "busy", "could do", "bound by"]
    note = "".join(f"<p>{escape(text)}</p>" for text in data_sheet_note(plan))
    return _table(headings[: len(rows[0])], rows, (3, 5)) + note


def _meter(value: float) -> str:
    width = min(100, round(100 * value))
    return f'<span class="meter"><i style="width:{width}%"></i></span>{percent_text(value).replace(" ", "&nbsp;")}'


def _counts_units(forecast: Forecast, frontier: Sequence[tuple[float, float]]) -> bool:
    """Whether units stand for prices, as nothing has one: what costs nothing beside what has a price is at 0."""
    return not forecast.price_per_hour and all(price > 0 for _, price in frontier)


def _bought(plan: Plan) -> int:
    """Units and machines that are taken; those of a Host are its own."""
    return sum(each.count for each in plan.purchases) or sum(plan.units.values())


def _frontier_note(counted: bool) -> str:
    unit = " Nothing here has a price: units are counted instead." if counted else ""
    return f'<p class="sub">Cheapest plan at each throughput; every step is another set of machines.{unit}</p>'


def _times(plan: Plan, forecast: Forecast) -> str:
    names = [
        name for name in vars(Cost()) if name.endswith("_s") and any(getattr(s.cost, name) for s in forecast.stages)
    ]
    rows = [
        [
            escape(stage.stage),
            *(part_text(getattr(stage.cost, name), star_of(plan, stage.stage)) for name in names),
            bytes_text(stage.cost.network_bytes),
        ]
        for stage in forecast.stages
    ]
    headings = ["stage", *(name.removesuffix("_s") for name in names), "bytes moved"]
    return _table(headings, rows, range(1, len(headings)))


def _memory(plan: Plan, forecast: Forecast) -> str:
    has = {pool.name: pool.device.memory_bytes for pool in plan.pools}
    rows = [
        [f"memory of a worker of {escape(pool)}", bytes_text(size), f"has {bytes_text(has[pool])}"]
        for pool, size in plan.memory_bytes.items()
    ]
    rows += [
        [f"rows {escape(t.group)}", f"{count_text(t.rows)} rows, {bytes_text(t.bytes)}, {t.tier}", escape(t.basis)]
        for t in forecast.tables
    ]
    rows += [[f"link {escape(name)}", f"{bytes_text(rate)}/s", ""] for name, rate in forecast.link_bytes_per_s.items()]
    rows.append(["shard hosts", f"{percent_text(forecast.shard_busy)} busy", ""])
    if forecast.price_per_hour:
        rows.append(["price", escape(price_text(forecast)), ""])
    return _table(["what", "figure", "basis"], rows)


def _proof(plan: Plan) -> str:
    c = plan.certificate
    if c is None:
        return "<p>None: the plan was made by hand.</p>"
    return (
        f"<p>{escape(c.objective)} {c.value:,.6g}, bound {c.bound:,.6g}: <b>{verdict(c)}</b>. "
        f"Rests on: {escape(c.proof)}. Solver {escape(c.solver)}, {counted_text(c.solves, 'solve')} in "
        f"{seconds_text(c.seconds)}.</p>"
    )


def _rivals(plan: Plan) -> str:
    rows = [
        [
            escape(r.name),
            "" if r.price_per_million_rows is None else f"{r.price_per_million_rows:.4g}",
            "" if r.rows_per_second is None else count_text(r.rows_per_second),
            escape(r.why),
        ]
        for r in plan.rivals
    ]
    return _table(["plan", "$ per million rows", "rows/s", "why"], rows, (1, 2)) if rows else ""


def _explanation(explanation: Explanation) -> str:
    layers = [
        [
            escape(note.layer),
            escape(note.reason),
            ", ".join(_on(pool, seconds_text(s), pool == note.chosen) for pool, s in note.seconds.items()),
            *([_prices(note)] if explanation.is_priced else []),
        ]
        for note in explanation.layers
    ]
    cuts = [[escape(c.before), bytes_text(c.bytes_per_row), "cut here" if c.taken else ""] for c in explanation.cuts]
    moves = [
        [escape(m.what), "not at this throughput" if m.ratio is None else f"{m.ratio:.3f}"] for m in explanation.moves
    ]
    headings = ["layer", "label", "a batch takes, by pool (chosen in bold)", "$ per million rows"]
    html = _table(headings if explanation.is_priced else headings[:-1], layers)
    html += "<p></p>" + _table(["cut before", "bytes a row", ""], cuts, (1,))
    return html + ("<p></p>" + _table(["instead", "price over the plan's"], moves, (1,)) if moves else "")


def _prices(note: LayerNote) -> str:
    return ", ".join(_on(pool, f"{price:.3g}", pool == note.chosen) for pool, price in note.price.items())


def _on(pool: str, figure: str, chosen: bool) -> str:
    text = f"{escape(pool)}&nbsp;{figure.replace(' ', '&nbsp;')}"
    return f"<b>{text}</b>" if chosen else text
