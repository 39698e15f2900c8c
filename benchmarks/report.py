"""Measurements to a page: the table of ratios and the plot of docs/benchmarks.md.

``python -m benchmarks.report`` writes the page again from the last results.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bars import bars
from benchmarks.figures import Row, cores, rates, ratios, reference, row_of, taken
from benchmarks.systems import INLINE, LIMIT, OURS, TCP, Case
from benchmarks.targets import verdicts

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"


def case_table(measured: dict[str, Any]) -> str:
    """One case as a Markdown table."""
    case, rows = Case(**measured["case"]), measured["rows"]
    base, s = reference(rows), measured["settings"]
    lines = [
        f"### {case.title}",
        "",
        f"{s['rounds']} rounds of {s['seconds']:g} s, {s['samples']:,} training samples; {measured['machine']}.",
        "",
        f"| system | samples/s | cores | taken | {base['name']} / system | spread | per CPU second | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(row, base) for row in rows]
    return "\n".join([*lines, ""])


def _line(row: Row, base: Row) -> str:
    if not row["windows"]:
        return f"| {row['name']} | did not run: {row['error'].splitlines()[0][:100]} | | | | | | |"
    found, cpu = ratios(base, row), ratios(base, row, per_core=True)
    peak = row.get("peak_bytes", 0) / 1e6
    return (
        f"| {row['name']} | {median(rates(row)):,.0f} | {cores(row):.2f} | {taken(row):.2f} | {median(found):.2f} | "
        f"{min(found):.2f}-{max(found):.2f} | {median(cpu):.2f} | {peak:,.0f} |"
    )


def target_table(result: dict[str, Any]) -> str:
    """What was wanted and what came out, as a Markdown table."""
    lines = ["| target | case | wanted | measured | per CPU second | |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {v.target} | {v.case} | {v.wanted} | {v.figure} | {v.per_core} | {v.said} |" for v in verdicts(result)
    ]
    return "\n".join([*lines, ""])


def quality_table(measured: dict[str, Any]) -> str:
    """AUC by system and seed as a Markdown table."""
    lines = [f"### AUC: {measured['title']}", "", "| system | mean | by seed |", "|---|---|---|"]
    for name, found in measured["auc"].items():
        each = " ".join(f"{score:.4f}" for score in found)
        lines.append(f"| {name} | {sum(found) / len(found):.4f} | {each} |")
    return "\n".join([*lines, ""])


def plot(result: dict[str, Any]) -> str:
    """Horizontal bars, one group per case: samples per second of each system over the matrix-multiplication limit."""
    groups = []
    for measured in result["cases"].values():
        base = row_of(measured["rows"], LIMIT) or reference(measured["rows"])
        shares = [(r["name"], median(ratios(r, base))) for r in measured["rows"] if r["windows"] and r is not base]
        groups.append((Case(**measured["case"]).title, shares))
    title = "samples per second over the bare matrix multiplications (= 1)"
    return bars(title, groups, ours=(OURS, INLINE, TCP))


def page(result: dict[str, Any]) -> str:
    """The measured part of docs/benchmarks.md."""
    facts = "\n".join(f"- {name}: {value}" for name, value in result["machine"].items())
    parts = [BEGIN, "", facts, "", "![shares](benchmarks.svg)", "", "### Targets", "", target_table(result)]
    parts += [case_table(measured) for measured in result["cases"].values()]
    parts += [quality_table(measured) for measured in result["quality"].values()]
    return "\n".join([*parts, END])


def write(result: dict[str, Any]) -> None:
    """Put the measured part into the page, between its marks, and the plot beside it."""
    path = DOCS / "benchmarks.md"
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(before + page(result) + after)
    (DOCS / "benchmarks.svg").write_text(plot(result))


if __name__ == "__main__":
    from benchmarks.results import RESULTS

    write(json.loads(RESULTS.read_text()))
