"""Measurements to a page: the table of ratios and the plot of docs/benchmarks.md.

``python -m benchmarks.report`` writes the page again from the last results.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.systems import INLINE, LIMIT, OURS, WANTED, Case

DOCS = Path(__file__).parent.parent / "docs"
ENOUGH_CORES = 1.6  # of the two that every judged system asks for
BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"


def rates(row: dict[str, Any], per_core: bool = False) -> list[float]:
    """Samples per second, or per CPU second, of each window."""
    return [w["samples"] / (w["cpu_seconds"] if per_core else w["seconds"]) for w in row["windows"]]


def cores(row: dict[str, Any]) -> float:
    """CPU seconds per second: below what a system asks for where others use the machine."""
    return median(w["cpu_seconds"] / w["seconds"] for w in row["windows"])


def ratios(ours: dict[str, Any], theirs: dict[str, Any], per_core: bool = False) -> list[float]:
    """Ours over theirs, round by round."""
    pairs = zip(rates(ours, per_core), rates(theirs, per_core), strict=False)
    return [a / b for a, b in pairs]


def reference(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row that the others are compared with: ours, or PyTorch where ours did not run."""
    for name in (OURS, INLINE, "PyTorch"):
        for row in rows:
            if row["name"] == name and row["windows"]:
                return row
    return next(row for row in rows if row["windows"])


def case_table(measured: dict[str, Any]) -> str:
    """One case as a Markdown table."""
    case, rows = Case(**measured["case"]), measured["rows"]
    base = reference(rows)
    lines = [
        f"### {case.title}",
        "",
        f"| system | samples/s | cores | {base['name']} / system | spread | per CPU second | wanted | peak MB | AUC |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(row, base, case, measured["auc"]) for row in rows]
    return "\n".join([*lines, ""])


def _line(row: dict[str, Any], base: dict[str, Any], case: Case, scores: dict[str, float]) -> str:
    if not row["windows"]:
        return f"| {row['name']} | did not run: {row['error'].splitlines()[0][:100]} | | | | | | | |"
    found, cpu = ratios(base, row), ratios(base, row, per_core=True)
    want = WANTED[case.rule].get(row["name"]) if base["name"] == OURS else None
    verdict = f"{want:g}: {_verdict(row, base, median(found) >= want)}" if want else ""
    score = f"{scores[row['name']]:.4f}" if row["name"] in scores else ""
    peak = row.get("peak_bytes", 0) / 1e6
    return (
        f"| {row['name']} | {median(rates(row)):,.0f} | {cores(row):.2f} | {median(found):.2f} | "
        f"{min(found):.2f}-{max(found):.2f} | {median(cpu):.2f} | {verdict} | {peak:,.0f} | {score} |"
    )


def _verdict(row: dict[str, Any], base: dict[str, Any], reached: bool) -> str:
    """Say nothing where either side lacked its cores: threads that wait for each other then slow down most."""
    if min(cores(row), cores(base)) < ENOUGH_CORES:
        return "not judged, the machine was busy"
    return "reached" if reached else "not reached"


def plot(result: dict[str, Any]) -> str:
    """Horizontal bars, one group per case: samples per second of each system over the matrix-multiplication limit."""
    bars: list[tuple[str, float | None]] = []
    for measured in result["cases"]:
        bars.append((Case(**measured["case"]).title, None))
        limit = next((r for r in measured["rows"] if r["name"] == LIMIT and r["windows"]), None)
        base = limit or reference(measured["rows"])
        for row in measured["rows"]:
            if row["windows"] and row is not base:
                bars.append((row["name"], median(ratios(row, base))))
    return _svg(bars)


def _svg(bars: list[tuple[str, float | None]]) -> str:
    left, scale, height = 170, 480, 20
    top = max([1.0, *(share for _, share in bars if share is not None)])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + scale + 60}" height="{height * (len(bars) + 2)}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="8" y="15">samples per second over the bare matrix multiplications (= 1)</text>',
    ]
    for number, (name, share) in enumerate(bars, start=1):
        y = number * height
        if share is None:
            parts.append(f'<text x="8" y="{y + 15}" font-weight="bold">{escape(name)}</text>')
            continue
        colour = "#c2410c" if name in (OURS, INLINE) else "#64748b"
        width = scale * share / top
        parts.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{left}" y="{y + 4}" width="{width:.1f}" height="{height - 6}" fill="{colour}"/>')
        parts.append(f'<text x="{left + width + 6:.1f}" y="{y + 15}">{share:.2f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def page(result: dict[str, Any]) -> str:
    """The measured part of docs/benchmarks.md."""
    facts = "\n".join(f"- {name}: {value}" for name, value in result["machine"].items())
    s = result["settings"]
    how = f"{s['rounds']} rounds of {s['seconds']:g} s per system, {s['samples']:,} training samples."
    tables = "\n".join(case_table(measured) for measured in result["cases"])
    return f"{BEGIN}\n\n{facts}\n\n{how}\n\n![shares](benchmarks.svg)\n\n{tables}\n{END}"


def write(result: dict[str, Any]) -> None:
    """Put the measured part into the page, between its marks, and the plot beside it."""
    path = DOCS / "benchmarks.md"
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(before + page(result) + after)
    (DOCS / "benchmarks.svg").write_text(plot(result))


if __name__ == "__main__":
    write(json.loads((Path(__file__).parent / ".data" / "results.json").read_text()))
