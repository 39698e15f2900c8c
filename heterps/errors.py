"""Every error a user can cause, by name.

A message names the thing, the place and what to do about it. Each class also derives from the built-in that fits,
so that ordinary ``except ValueError`` code keeps working.
"""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "ClusterError",
    "DataError",
    "GraphError",
    "HardwareError",
    "HeterpsError",
    "LabelError",
    "OpError",
    "OutputError",
    "PlanError",
    "ProtocolError",
    "RunError",
    "ServeError",
    "TableError",
    "TableFullError",
    "UnknownKindError",
]


#: What to do about a name that is somebody else's: ends messages about unknown names.
IMPORT_FIRST = ". One from elsewhere has to be imported first: import its module, or heterps --parts FILE ..."


class HeterpsError(Exception):
    """Base of all errors raised on purpose by this package."""


class GraphError(HeterpsError, ValueError):
    """A model graph is not legal; the message names the op and what was expected."""


class UnknownKindError(HeterpsError, KeyError):
    """A registered thing (op kind, rule, reader, solver ...) was asked for by a name nobody registered."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class HardwareError(HeterpsError, ValueError):
    """A hardware description does not make sense."""


class PlanError(HeterpsError, ValueError):
    """No plan meets the goal, or a plan does not fit the graph it is used with."""


class DataError(HeterpsError, ValueError):
    """Input data cannot be used; the message names file and line, or the column and what is there instead."""


class LabelError(DataError):
    """Most labels of the data are none that the model's loss takes."""


class OutputError(HeterpsError, OSError):
    """A result cannot be written where it was asked for; the message names the path and what is there."""


class TableError(HeterpsError, ValueError):
    """A table request that cannot be served as asked."""


class TableFullError(TableError):
    """The row budget of a table is used up and its policy is to refuse."""


class CheckpointError(HeterpsError, ValueError):
    """A snapshot cannot be read or written; the message names the file."""


class OpError(HeterpsError, RuntimeError):
    """An op failed while it ran; the message names the op, the cause, and the stage and worker where it happened."""


class ProtocolError(HeterpsError, RuntimeError):
    """An event that does not fit the state of the run; carries the story of what led there."""


class ClusterError(HeterpsError, RuntimeError):
    """The Dask cluster does not have what the plan asks for, or lost it."""


class ServeError(HeterpsError, RuntimeError):
    """A server cannot be started as asked; the message says what is missing."""


class RunError(HeterpsError, RuntimeError):
    """A run stopped before its end; the message says why and how to go on."""


class UnsavedError(RunError):
    """Everything is trained and in the session's tables, but the last cut of it could not be written."""
