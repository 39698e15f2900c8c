"""Do things happen as often as predicted? Rows by prediction, with what was predicted and what happened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heterps.svg import INK, picture, text

__all__ = ["Reliability"]

F64 = npt.NDArray[np.float64]
_BINS = 15
_SIDE, _LEFT, _TOP, _BELOW = 320.0, 60.0, 60.0, 95.0
_COLOURS = ("#c05621", "#2b6cb0")


@dataclass(frozen=True)
class Reliability:
    """Rows in bins of as many rows each, by prediction.

    Parameters
    ----------
    predicted, happened
        Means of a bin's predictions and labels.
    rows
        Of each bin.
    """

    predicted: tuple[float, ...]
    happened: tuple[float, ...]
    rows: tuple[int, ...]

    @classmethod
    def of(cls, predictions: F64, labels: F64, bins: int = _BINS) -> Reliability:
        """Measure predictions against labels."""
        order = np.argsort(predictions, kind="stable")
        parts = [part for part in np.array_split(order, bins) if len(part)]
        return cls(
            tuple(float(predictions[part].mean()) for part in parts),
            tuple(float(labels[part].mean()) for part in parts),
            tuple(len(part) for part in parts),
        )

    @property
    def error(self) -> float:
        """Expected calibration error: how far both lie apart, on average over rows."""
        apart = np.abs(np.subtract(self.predicted, self.happened))
        return float(np.average(apart, weights=self.rows)) if self.rows else 0.0

    def drawn(self, title: str = "", after: Reliability | None = None) -> str:
        """Draw what was predicted against what happened, also after a calibration."""
        both = [("as predicted", self)] + ([("calibrated", after)] if after else [])
        top = min(1.0, 1.05 * max(0.05, *(max((*each.predicted, *each.happened), default=0.0) for _, each in both)))
        body = [_frame(top, title)]
        for i, (name, each) in enumerate(both):
            body.append(_curve(each, top, _COLOURS[i]))
            words = f"{name}: expected calibration error {each.error:.4f}"
            body.append(text(_LEFT, _TOP + _SIDE + 62 + 18 * i, words, _COLOURS[i]))
        return picture(_LEFT + _SIDE + 30, _TOP + _SIDE + _BELOW, "".join(body), "#ffffff")


def _frame(top: float, title: str) -> str:
    marks = [top * i / 4 for i in range(5)]
    lines = [
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#cbd5e0"/>',
        f'<line x1="{_LEFT}" y1="{_TOP + _SIDE}" x2="{_LEFT + _SIDE}" y2="{_TOP}" stroke="#a0aec0" '
        'stroke-dasharray="4 4"/>',
        text(_LEFT, 22, title, INK, size=13, bold=True),
        text(_LEFT + _SIDE / 2, _TOP + _SIDE + 38, "predicted", INK, "middle"),
        text(16, _TOP - 10, "happened", INK),
    ]
    for mark in marks:
        x, y = _at(mark, mark, top)
        lines.append(text(x, _TOP + _SIDE + 18, f"{mark:.2g}", "#4a5568", "middle", size=10))
        lines.append(text(_LEFT - 6, y + 4, f"{mark:.2g}", "#4a5568", "end", size=10))
    return "".join(lines)


def _curve(each: Reliability, top: float, colour: str) -> str:
    points = [_at(p, h, top) for p, h in zip(each.predicted, each.happened, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'


def _at(predicted: float, happened: float, top: float) -> tuple[float, float]:
    return _LEFT + _SIDE * predicted / top, _TOP + _SIDE - _SIDE * happened / top
