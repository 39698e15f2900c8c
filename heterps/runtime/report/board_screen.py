"""What is on a notice board, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import localtime, strftime
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from heterps.printing import printable

__all__ = ["STATES", "board_screen", "run_line", "sparkline"]

STATES = {"training": "training", "done": "done", "left": "left early", "failed": "failed", "lost": "lost"}
_COLOURS = {"training": "green", "done": "blue", "left": "yellow", "failed": "red", "lost": "red"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDE, _EVENTS = 48, 8
_SILENT_S = 10.0  # without a word, before that is told


def run_line(run: Mapping[str, Any]) -> str:
    """Return one training in a line: its last report while it goes on, then how it ended."""
    said = run["latest"].get("line", "no report yet")
    if run["state"] == "training":
        return printable(f"{run['name']}: {said}")
    return printable(f"{run['name']}: {STATES[run['state']]}{': ' + run['words'] if run['words'] else ''} | {said}")


def sparkline(values: Sequence[float | None], width: int = _WIDE) -> str:
    """Draw values as blocks, the newest last; those that are missing as spaces."""
    shown = list(values)[-width:]
    found = [value for value in shown if value is not None]
    if not found:
        return ""
    low, high = min(found), max(found)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if value is None else _BLOCKS[round((value - low) * scale)] for value in shown)


def board_screen(state: Mapping[str, Any]) -> RenderableType:
    """Return everything on the board, the newest training first."""
    if not state["runs"]:
        return Text("no run yet: it appears here as soon as a training on this cluster begins")
    return Group(*(_run(run, state["now"]) for run in state["runs"]))


def _run(run: Mapping[str, Any], now: float) -> RenderableType:
    parts: list[RenderableType] = [Text(printable(_headline(run, now)), style=_COLOURS[run["state"]])]
    if run["latest"]:
        parts += [_curves(run), *_loads(run["latest"])]
        if run["latest"]["tables"]:
            parts.append(_tables(run["latest"]["tables"]))
    parts += [Text(printable(line), style="dim") for line in run["about"]]
    for event in run["events"][-_EVENTS:]:
        when = strftime("%H:%M:%S", localtime(event["at"]))
        style = "red" if event["kind"] == "fault" else ""
        parts.append(Text(printable(f"{when} {event['kind']}: {event['words']}"), style=style))
    return Panel(Group(*parts), title=Text(printable(run["name"])), title_align="left")


def _headline(run: Mapping[str, Any], now: float) -> str:
    parts = [STATES[run["state"]]]
    if run["words"]:
        parts.append(run["words"])
    if latest := run["latest"]:
        parts += [f"epoch {latest['epoch']}/{latest['epochs']}", f"{latest['samples']:,} samples"]
    if run["state"] == "training" and now - run["heard"] > _SILENT_S:
        parts.append(f"silent for {now - run['heard']:.0f} s")
    return " | ".join(parts)


def _curves(run: Mapping[str, Any]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, values in _series(run["points"]):
        last = next((value for value in reversed(values) if value is not None), None)
        shown = "" if last is None else f"{last:,.0f}" if name == "samples/s" else f"{last:.4f}"
        table.add_row(Text(printable(name)), Text(shown), Text(sparkline(values), style="cyan"))
    return table


def _series(points: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[float | None]]]:
    yield "samples/s", [point["samples_per_s"] for point in points]
    yield "loss", [point["loss"] for point in points]
    for kind, prefix in (("metrics", ""), ("valid", "valid ")):
        for name in dict.fromkeys(name for point in points for name in point[kind]):
            yield prefix + name, [point[kind].get(name) for point in points if kind == "metrics" or point[kind]]


def _loads(latest: Mapping[str, Any]) -> Iterator[Text]:
    if latest["busy"]:
        shares = ", ".join(f"{pool} {100 * share:.0f} %" for pool, share in latest["busy"].items())
        yield Text(printable(f"busy {shares}"))
    waits = [f"{name} {count}" for name, count in latest["queues"].items()]
    if waits or latest["staleness"]:
        yield Text(printable(" | ".join(filter(None, [", ".join(waits), f"staleness {latest['staleness']:.1f}"]))))


def _tables(tables: Sequence[Mapping[str, Any]]) -> RenderableType:
    shown = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("table", "host", "worker", "rows", "MB"):
        shown.add_column(heading, justify="left" if heading in ("table", "worker") else "right")
    for each in tables:
        rows = f"{each['rows']:,}" if each["rows"] else ""
        cells = (each["table"], str(each["host"]), each["worker"], rows, f"{each['bytes'] / 1e6:,.1f}")
        shown.add_row(*(Text(printable(cell)) for cell in cells))
    return shown
