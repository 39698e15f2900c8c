"""What a training has reported so far, as numbers over samples."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["History", "Point"]


@dataclass(frozen=True)
class Point:
    """The numbers of one report: by name, after so many samples."""

    samples: int
    loss: float
    metrics: dict[str, float]
    valid: dict[str, float]
    samples_per_s: float


@dataclass
class History:
    """Points in the order in which they were reported; one training adds to it, its reports share it."""

    points: list[Point] = field(default_factory=list)

    def add(self, point: Point) -> None:
        """Remember a report."""
        self.points.append(point)

    def until(self, samples: int) -> list[Point]:
        """Return what was reported up to so many samples."""
        return [point for point in self.points if point.samples <= samples]
