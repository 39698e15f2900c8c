"""What one op costs on one batch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OpCost"]


@dataclass(frozen=True)
class OpCost:
    """Work of one op over one batch, forward and backward together.

    ``flops`` counts a multiply-add as two; ``read_bytes`` and ``written_bytes`` count every array once per pass over
    it; ``parameter_bytes`` is the size of the op's own dense parameters (independent of the batch).
    """

    flops: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    parameter_bytes: float = 0.0

    def __add__(self, other: OpCost) -> OpCost:
        return OpCost(
            self.flops + other.flops,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
            self.parameter_bytes + other.parameter_bytes,
        )

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte moved."""
        moved = self.read_bytes + self.written_bytes
        return self.flops / moved if moved else 0.0
