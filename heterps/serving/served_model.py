"""One state of an exported model, opened: its rows mapped, its parameters read. It never changes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heterps.data.core.data_form import DataForm
from heterps.data.core.schema import Schema
from heterps.errors import CheckpointError, DataError, GraphError
from heterps.graph import Op
from heterps.graph.types import Form
from heterps.kernels.program.param_layout import ParamLayout
from heterps.parquet import read_parquet
from heterps.ragged import Ragged
from heterps.serving.features import PlainFeatures
from heterps.serving.forward import MOST_ROWS, DensePart, NumpyPart, OnnxPart
from heterps.serving.lookups import looked_up
from heterps.serving.manifest import DENSE, ONNX, Export, links_to
from heterps.serving.mapped_rows import MappedRows
from heterps.serving.needs import PREDICTION, needed_for
from heterps.stages.lowering import lower
from heterps.tables.snapshots.disk import ReadBuffer, guarded, read_checked

__all__ = ["ServedModel", "TensorNeeds"]

Engine = Literal["numpy", "onnx"]
Floats = npt.NDArray[np.float32]


class TensorNeeds(NamedTuple):
    """What one tensor takes: lookups, columns of a batch, how rows are made into them (None: they must be ready)."""

    tensor: str
    gathers: tuple[Op, ...]
    columns: tuple[str, ...]
    features: PlainFeatures | None


class ServedModel:
    """A generation of an exported model with all it builds on.

    Parameters
    ----------
    folder
        Of the generation.
    engine
        ``"numpy"``, or ``"onnx"`` for onnxruntime.
    verify
        Whether every byte is compared with its hash first; sizes and forms are checked in any case.
    """

    def __init__(self, folder: Path, engine: Engine = "numpy", *, verify: bool = False) -> None:
        self.folder = folder
        self.links = tuple(links_to(folder))
        self.export: Export = self.links[0][1]
        if verify:
            self.verify()
        self.graph = self.export.graph
        lowered = lower(self.graph)
        self._lowered = lowered.graph
        self.rows = {group.name: MappedRows(group, self.links) for group in lowered.groups}
        self._dense = self._part(engine)
        self._wanted: dict[str, TensorNeeds] = {}

    @cached_property
    def version(self) -> str:
        """What answers are told to be made by: the number of the generation and how its manifest's hash begins."""
        return f"{self.folder.name}-{self.export.sha256[:8]}"

    @property
    def form(self) -> DataForm | None:
        """How rows become batches."""
        return self.export.form

    def verify(self) -> None:
        """Compare every file with its hash."""
        buffer = ReadBuffer()
        for folder, export in self.links:
            for file in export.files:
                read_checked(folder / file.name, file.sha256, file.size, buffer)

    @cached_property
    def dense(self) -> dict[str, Floats]:
        """Dense parameters by ``op.param``."""
        found: dict[str, Floats] = {}
        for file in self.export.files_of(DENSE):
            path = self.folder / file.name
            with guarded(path):
                table = read_parquet(pa.BufferReader(read_checked(path, file.sha256, file.size)))
                for name, values in zip(table["name"].to_pylist(), table["values"], strict=True):
                    flat = values.values  # Arrow's own to_numpy would import pandas, which takes half of a start
                    found[name] = np.frombuffer(flat.buffers()[1], np.float32)[flat.offset : flat.offset + len(flat)]
        return found

    def _part(self, engine: str) -> DensePart:
        if engine == "onnx":
            return self._onnx_part()
        if engine != "numpy":
            raise GraphError(f"engine of a predictor is numpy or onnx, not {engine!r}")
        for piece in ParamLayout(self._lowered):
            if piece.name not in self.dense or self.dense[piece.name].size != piece.size:
                raise CheckpointError(f"{self.folder} has no dense parameter {piece.name!r} of {piece.size} numbers")
        return NumpyPart(self._lowered, self.dense)

    def _onnx_part(self) -> OnnxPart:
        found = self.export.files_of(ONNX)
        if not found:
            raise CheckpointError(f"{self.folder} has no ONNX file: {self.export.onnx}")
        path = self.folder / found[0].name
        data = bytes(read_checked(path, found[0].sha256, found[0].size))
        with guarded(path):
            return OnnxPart(self._lowered, data, self.graph.outputs)

    def wanted(self, name: str) -> TensorNeeds:
        """Say what a tensor takes: ``prediction``, an output or an op of the graph."""
        if name not in self._wanted:  # two threads may both work it out: they come to the same
            self._wanted[name] = self._work_out(name)
        return self._wanted[name]

    def _work_out(self, name: str) -> TensorNeeds:
        graph = self._lowered
        tensor = (
            PREDICTION if name == PREDICTION and name not in self.graph.outputs else self.graph.outputs.get(name, name)
        )
        if tensor != PREDICTION and (tensor not in graph or graph[tensor].type.form is not Form.DENSE):
            known = [PREDICTION, *self.graph.outputs, *(op.name for op in self.graph if op.type.form is Form.DENSE)]
            raise GraphError(f"nothing to fetch is called {name!r}; there are {', '.join(dict.fromkeys(known))}")
        needed = needed_for(graph, tensor)
        gathers = tuple(op for op in graph if op.name in needed and op.kind == "gather_pool")
        columns = {op.inputs[1] for op in gathers} | {
            op.name for op in graph if op.name in needed and op.kind == "input"
        }
        ordered = tuple(op.name for op in graph.inputs if op.name in columns)
        return TensorNeeds(tensor, gathers, ordered, self._features(ordered))

    def _features(self, columns: tuple[str, ...]) -> PlainFeatures | None:
        form = self.form
        if form is None or not form.has_recipes or any(name not in form.fields for name in columns):
            return None
        return PlainFeatures(Schema(tuple(form.fields[name] for name in columns)))

    def columns(self, rows: Any, wanted: TensorNeeds) -> dict[str, Any]:
        """Return columns of a batch, made of rows or given ready-made as a dict."""
        if isinstance(rows, Mapping) and _are_ready(rows, wanted):
            return {name: self._ready(name, rows[name]) for name in wanted.columns}
        if wanted.features is None:
            raise DataError(
                f"nothing says how rows become batches: the model was not trained on files or frames. Give the columns "
                f"of a batch as a dict of arrays: {', '.join(wanted.columns)}"
            )
        return wanted.features.columns(rows)

    def _ready(self, name: str, column: Any) -> Any:
        """Return a ready-made column in the type and shape that the model reads."""
        type_ = self._lowered[name].type
        if type_.form is Form.RAGGED:
            lists = column if isinstance(column, Ragged) else Ragged.from_lists(column)
            return Ragged(lists.values.astype(np.uint64, copy=False), lists.offsets)
        array = np.asarray(column)
        wanted = np.dtype(np.float32 if type_.dtype.startswith("float") else type_.dtype)
        if wanted.kind == "u" and (array.dtype.kind not in "iu" or (array.dtype.kind == "i" and (array < 0).any())):
            raise DataError(f"column {name!r} has {array.dtype}, the model reads ids: whole numbers from 0 on")
        if array.ndim == 0 or (array.shape[1:] != type_.shape and array[:1].size != np.prod(type_.shape, dtype=int)):
            raise DataError(f"column {name!r} has shape {array.shape}, the model reads (rows, *{type_.shape})")
        return array.astype(wanted, copy=False)

    def run(self, rows: Any, name: str = PREDICTION) -> npt.NDArray[Any]:
        """Return a tensor for rows."""
        wanted = self.wanted(name)
        return self.run_columns(self.columns(rows, wanted), wanted)

    def run_columns(self, columns: Mapping[str, Any], wanted: TensorNeeds) -> npt.NDArray[Any]:
        """Return a tensor for columns of a batch of any size."""
        sizes = {name: len(column) for name, column in columns.items()}
        n = next(iter(sizes.values()))
        if len(set(sizes.values())) > 1:
            raise DataError(f"all columns need the same number of rows, got {sizes}")
        if n <= MOST_ROWS:
            return self._some(columns, wanted, n)
        starts = range(0, n, MOST_ROWS)
        parts = [{name: column[at : at + MOST_ROWS] for name, column in columns.items()} for at in starts]
        return np.concatenate(
            [self._some(part, wanted, min(MOST_ROWS, n - at)) for part, at in zip(parts, starts, strict=True)]
        )

    def _some(self, columns: Mapping[str, Any], wanted: TensorNeeds, n: int) -> npt.NDArray[Any]:
        if not n:
            raise DataError("there are no rows")
        found = looked_up(self._lowered, wanted.gathers, self.rows, columns)
        if wanted.tensor in found:
            return np.asarray(found[wanted.tensor])
        return self._dense.run(wanted.tensor, {**columns, **found}, n)


def _are_ready(rows: Mapping[str, Any], wanted: TensorNeeds) -> bool:
    """Tell columns of a batch from a row: a source column may have the name of one, but holds no arrays."""
    there = [rows.get(name) for name in wanted.columns]
    if wanted.features is None:
        return all(column is not None for column in there)
    return all(isinstance(column, np.ndarray | Ragged) for column in there)
