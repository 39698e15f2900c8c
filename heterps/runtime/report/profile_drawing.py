"""A profile as a picture: what the threads of each pool did, and what each phase took."""

from __future__ import annotations

from collections.abc import Iterator

from heterps.runtime.batch.phases import PHASES, WAITING
from heterps.runtime.report.phase_profile import PhaseProfile
from heterps.svg import label, picture, text

__all__ = ["draw"]

WIDTH, MARGIN, LEFT, RIGHT = 900, 28, 128, 96
BAR_H, ROW_H, LINE_H, HEADER = 30, 46, 26, 74
_INK, _FAINT, _GRID, _IDLE = "#1a202c", "#4a5568", "#e2e8f0", "#f7fafc"
_NARROW = 64  # pixels a name needs inside a bar
# Data in blue, tables in green, computing in orange, the rest in grey; the way back is darker than the way out.
_COLOURS = {
    "read": "#90cdf4",
    "deduplicate": "#3182ce",
    "pull": "#9ae6b4",
    "gather": "#fbd38d",
    "forward": "#ed8936",
    "backward": "#c05621",
    "scatter": "#975a16",
    "push": "#48bb78",
    "rule": "#276749",
    "metrics": "#a0aec0",
    WAITING: "#cbd5e0",
}
_PALE = {"read", "pull", "gather", WAITING}


def draw(profile: PhaseProfile, title: str = "") -> str:
    """Return a self-contained SVG: one bar per pool over its threads' time, then one line per phase."""
    shown = [phase for phase in PHASES if profile.phases[phase] > 0]
    pools_y = HEADER + 30
    phases_y = pools_y + ROW_H * len(profile.pools) + 62
    height = phases_y + LINE_H * len(shown) + MARGIN
    seconds = sum(profile.capacity_s.values())
    body = text(MARGIN, 34, title or "Where the time went", size=18, bold=True)
    body += text(MARGIN, 56, f"{profile.elapsed_s:,.1f} s of training, {seconds:,.1f} s of threads", _FAINT)
    body += _heading(HEADER + 14, "what the threads of each pool did")
    for i, pool in enumerate(profile.pools):
        body += _pool(profile, pool, pools_y + ROW_H * i)
    body += _scale(pools_y + ROW_H * len(profile.pools))
    body += _heading(phases_y - 14, "what each phase took, seconds of threads and share of all")
    most = max((profile.phases[phase] for phase in shown), default=1.0)
    for i, phase in enumerate(shown):
        body += _phase(phase, profile.phases[phase], most, seconds, phases_y + LINE_H * i)
    return picture(WIDTH, height, body, "white")


def _heading(y: float, words: str) -> str:
    return text(MARGIN, y, words, _FAINT, size=13, bold=True)


def _pool(profile: PhaseProfile, pool: str, y: float) -> str:
    """One bar: as long as the threads' time, phases side by side, what is left blank was idle."""
    room = WIDTH - LEFT - RIGHT
    spent = profile.pools[pool]
    whole = max(profile.capacity_s.get(pool, 0.0), sum(spent.values())) or 1.0
    body = f'<rect x="{LEFT}" y="{y}" width="{room}" height="{BAR_H}" fill="{_IDLE}" stroke="{_GRID}"/>'
    for phase, x, width in _pieces(profile, pool, whole, room):
        share = f"{phase}: {spent[phase]:.2f} s, {100 * spent[phase] / whole:.1f} %"
        body += f"<g><title>{label(f'{pool}, {share}')}</title>"
        body += f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR_H}" fill="{_COLOURS[phase]}"/>'
        if width > _NARROW:
            ink = _INK if phase in _PALE else "white"
            body += text(x + width / 2, y + BAR_H / 2 + 4, phase, ink, "middle", size=11)
        body += "</g>"
    idle = (1 - sum(spent.values()) / whole) * room
    if idle > _NARROW:
        body += text(LEFT + room - idle / 2, y + BAR_H / 2 + 4, "idle", "#a0aec0", "middle", size=11)
    body += text(LEFT - 12, y + BAR_H / 2 + 5, pool, anchor="end", size=14, bold=True)
    return body + text(WIDTH - RIGHT + 12, y + BAR_H / 2 + 5, f"{100 * profile.busy[pool]:.0f} % busy", size=13)


def _pieces(profile: PhaseProfile, pool: str, whole: float, room: float) -> Iterator[tuple[str, float, float]]:
    x = float(LEFT)
    for phase in PHASES:
        width = max(0.0, profile.pools[pool].get(phase, 0.0)) / whole * room
        if width > 0:
            yield phase, x, width
        x += width


def _scale(y: float) -> str:
    room = WIDTH - LEFT - RIGHT
    places = ((0, "start"), (25, "middle"), (50, "middle"), (75, "middle"), (100, "end"))
    return "".join(text(LEFT + room * n / 100, y, f"{n} %", _FAINT, anchor, size=11) for n, anchor in places)


def _phase(phase: str, seconds: float, most: float, whole: float, y: float) -> str:
    room = WIDTH - LEFT - RIGHT - 60
    width = max(1.0, seconds / most * room)
    share = f" · {100 * seconds / whole:.1f} %" if whole else ""
    return (
        text(LEFT - 12, y + 14, phase, anchor="end", size=13)
        + f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{LINE_H - 8}" rx="2" fill="{_COLOURS[phase]}"/>'
        + text(LEFT + width + 8, y + 14, f"{seconds:,.2f} s{share}", _FAINT)
    )
