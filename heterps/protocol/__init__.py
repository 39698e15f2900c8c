"""What a run does, as pure code: no Dask, no clock, no thread, no I/O."""

from heterps.protocol.keys import BatchKey
from heterps.protocol.window import Window

__all__ = ["BatchKey", "Window"]
