"""Train click-through-rate models with huge sparse tables on a Dask cluster of mixed machines."""

from heterps.data.batch import Batch
from heterps.errors import HeterpsError
from heterps.graph import Graph, ops
from heterps.protocol.keys import BatchKey
from heterps.ragged import Ragged

__version__ = "0.1.0"

__all__ = ["Batch", "BatchKey", "Graph", "HeterpsError", "Ragged", "ops"]
