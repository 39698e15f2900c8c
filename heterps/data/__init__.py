"""Files to batches."""

from heterps.data.batch import Batch, Column

__all__ = ["Batch", "Column"]
