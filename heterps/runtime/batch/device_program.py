"""A Program on a device, given host arrays and giving host arrays: one copy up, one flat copy down, one wait.

A batch goes :meth:`~DeviceProgram.start`, then either :meth:`~DeviceProgram.backward` where the loss is computed here,
or :meth:`~DeviceProgram.outputs` and, once others have given the gradients of these, :meth:`~DeviceProgram.backward`.
On a CPU nothing is copied: results are views of the Program's buffers, as the Program says.

Each of them is made of steps, of which only the last waits for the device: :meth:`~DeviceProgram.send`, and
:meth:`~DeviceProgram.forward`; :meth:`~DeviceProgram.start_outputs`, and :meth:`~DeviceProgram.take_outputs`;
:meth:`~DeviceProgram.give`, :meth:`~DeviceProgram.start_backward`, and :meth:`~DeviceProgram.take_gradients`. Who has
several programs queues the work of one while another's is copied or computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device import CopyStreams, Lap, Transfer, is_host, to_device, to_host
from heterps.graph import Graph
from heterps.kernels.ops.rows import Lists, Rows
from heterps.kernels.program.program import Gradients, Program
from heterps.runtime.batch.devices import ChosenDevice
from heterps.tables.on_device.device_cache import RowsThere

__all__ = ["DeviceProgram", "moved"]

F32 = npt.NDArray[np.float32]
_PARAMS, _LOSS, _PREDICTION, _DENSE = "params", "loss", "prediction", "dense"


class DeviceProgram:
    """Ops of a lowered graph on the device that was chosen for them; belongs to one thread at a time.

    Parameters
    ----------
    graph, ops, batch_size
        As for :class:`~heterps.kernels.program.program.Program`.
    device
        What to compute on.
    streams
        Of copies, where several programs share them.
    """

    def __init__(
        self,
        graph: Graph,
        ops: Iterable[str] | None,
        batch_size: int,
        device: ChosenDevice,
        streams: CopyStreams | None = None,
    ) -> None:
        self.device, self._away = device, device.xp is not np
        with device.current():
            self.program = Program(graph, ops, batch_size=batch_size, xp=device.xp)
            self._transfer = Transfer(device.xp, 2, streams)  # a batch's feeds, and the gradients given for it
            self._params: Any = device.xp.empty(self.program.layout.size if self._away else 0, np.float32)
        self.feeds, self.given, self.layout = self.program.feeds, self.program.given, self.program.layout
        self.has_steps = bool(self.program.scope.steps)
        self.computes_loss = graph.loss in {name for step in self.program.scope.steps for name in step.ops}
        self._laps: list[Lap] = []  # of the batch under way: its feeds have to stay until backward has read them
        self._fed: Mapping[str, Any] = {}  # that batch's feeds, here
        self._given: Mapping[str, Any] = {}  # the gradients given for it, here
        self._outputs: dict[str, Any] = {}  # of that batch, asked for
        self._has_outputs = False  # whether they were brought here
        self._gradients = Gradients({}, np.empty(0, np.float32))  # of that batch, where it computes
        self._stay: frozenset[str] = frozenset()  # feeds of that batch whose gradients nobody brings here
        self._brought: dict[str, Any] = {}  # loss and prediction of that batch, once they are here

    # --- a batch, one call after another

    def start(
        self, feeds: Mapping[str, Any], params: F32, *, changed: bool = True, train: bool = True, seed: int = 0
    ) -> None:
        """Run forward, leaving the results where they are; see :meth:`send` and :meth:`forward`."""
        self.send(feeds, params, changed=changed)
        self.forward(train=train, seed=seed)

    def outputs(self, names: Iterable[str] | None = None, *, predicted: bool = False) -> dict[str, Any]:
        """Bring results of forward here by name; with ``predicted`` the prediction comes along."""
        self.start_outputs(names, predicted=predicted)
        return self.take_outputs()

    def backward(
        self,
        given: Mapping[str, Any] | None = None,
        out: F32 | None = None,
        rows: Mapping[str, F32] | None = None,
        reached: Callable[[int], None] | None = None,
        rows_stay: Iterable[str] = (),
    ) -> Gradients:
        """Run backward; the gradients are host arrays, in ``out`` and ``rows`` where those are given.

        ``reached`` is told meanwhile from where on ``out`` is complete; what is on a device comes at once. Those of the
        feeds ``rows_stay`` are left where they are, see :meth:`start_backward`.
        """
        self.give(given or {})
        self.start_backward(out, rows, reached, rows_stay=rows_stay)
        return self.take_gradients(out, rows)

    # --- the same in steps

    def send(self, feeds: Mapping[str, Any], params: F32, *, changed: bool = True) -> None:
        """Begin to copy a batch to the device; what was given is free when this returns, but on a CPU.

        ``changed`` says whether ``params`` are others than in the call before: if not, they are there already. Those
        that are on the device are used as they are, and so are rows.
        """
        self._fed = feeds
        if not self._away:
            self._params = params
            return
        with self.device.current():
            self.release()
            self._has_outputs = False
            sent = {f"{name}/{i}": array for name, value in feeds.items() for i, array in enumerate(_arrays(value))}
            if not is_host(params):
                self._params = params
            elif changed and params.size:
                sent[_PARAMS] = params
            self._laps.append(self._transfer.send(sent))

    def forward(self, *, train: bool = True, seed: int = 0) -> None:
        """Run forward on what was sent; the device is not waited for."""
        if not self._away:
            self.program.forward(self._fed, self._params, train=train, seed=seed)
            return
        with self.device.current():
            there = dict(self._laps[-1].arrive())
            if _PARAMS in there:
                self._params[...] = there.pop(_PARAMS)
            arrays = iter(there.values())
            moved = {name: _with_arrays(value, arrays) for name, value in self._fed.items()}
            self.program.forward(moved, self._params, train=train, seed=seed)

    def start_outputs(self, names: Iterable[str] | None = None, *, predicted: bool = False) -> None:
        """Begin to copy results of forward here."""
        found = self.program.results()
        self._outputs = {name: found[name] for name in (found if names is None else names) if name in found}
        if not self._away:
            return
        with self.device.current():
            down = {f"{name}/{i}": a for name, value in self._outputs.items() for i, a in enumerate(_arrays(value))}
            self._laps[-1].download(down | ({_PREDICTION: self.program.prediction} if predicted else {}))
            self._has_outputs = True

    def take_outputs(self) -> dict[str, Any]:
        """Wait for the results that were asked for."""
        if not self._away:
            return self._outputs
        arrays = iter([array.copy() for array in self._collect().values()])
        return {name: _with_arrays(value, arrays) for name, value in self._outputs.items()}

    def give(self, given: Mapping[str, Any]) -> None:
        """Begin to copy the gradients of outputs to the device."""
        self._given = given
        if self._away and (given or self._has_outputs):  # else the lap of the feeds brings everything down
            with self.device.current():
                self._laps.append(self._transfer.send(dict(given)))

    def start_backward(
        self,
        out: F32 | None = None,
        rows: Mapping[str, F32] | None = None,
        reached: Callable[[int], None] | None = None,
        *,
        stays: bool = False,
        rows_stay: Iterable[str] = (),
    ) -> None:
        """Run backward and begin to copy the gradients here; on a CPU they are in ``out`` and ``rows`` at once.

        With ``stays`` the dense gradient is left where it is, for :meth:`dense_gradient`, and so are those of the feeds
        ``rows_stay``, for :meth:`row_gradient`.
        """
        self._stay = frozenset(rows_stay)
        if not self._away:
            self._gradients = self.program.backward(self._given, out, rows, reached)
            return
        with self.device.current():
            given = self._laps[-1].arrive() if len(self._laps) > 1 else None
            self._gradients = gradients = self.program.backward(given)
            down = {f"{name}/": gradient for name, gradient in gradients.inputs.items() if name not in self._stay}
            down |= {_DENSE: gradients.dense} if self.layout.size and not stays else {}
            if self.computes_loss:
                down |= {_LOSS: self.program.loss_array, _PREDICTION: self.program.prediction}
            self._laps[-1].download(down)

    def dense_gradient(self) -> Any:
        """Return a copy of the dense gradient where it was computed."""
        with self.device.current():
            return self._gradients.dense.copy()

    def row_gradient(self, name: str) -> Any:
        """Return a copy of the gradient of rows that were fed, where it was computed."""
        with self.device.current():
            return self._gradients.inputs[name].copy()

    def take_gradients(self, out: F32 | None = None, rows: Mapping[str, F32] | None = None) -> Gradients:
        """Wait for the gradients but for those that stay, and end the batch."""
        coming = [name for name in self._gradients.inputs if name not in self._stay]
        if not self._away:
            return Gradients({name: self._gradients.inputs[name] for name in coming}, self._gradients.dense)
        with self.device.current():
            here = self._collect()
            dense = _kept(here.get(_DENSE, np.empty(0, np.float32)), out)
            inputs = {name: _kept(here[f"{name}/"], (rows or {}).get(name)) for name in coming}
            self.release()
        return Gradients(inputs, dense)

    # --- the last batch

    @property
    def has_run(self) -> bool:
        """Whether there was a batch whose results are here."""
        return bool(self._brought) if self._away else self.program.has_run

    @property
    def loss(self) -> float:
        """Loss of the last batch; on a device it came with the gradients."""
        return float(self._brought[_LOSS]) if self._away else self.program.loss

    @property
    def prediction(self) -> npt.NDArray[Any]:
        """Prediction for the last batch; on a device it came with the gradients, or with the outputs."""
        found: npt.NDArray[Any] = self._brought[_PREDICTION] if self._away else self.program.prediction
        return found

    def look(self, op: str) -> npt.NDArray[Any] | None:
        """Copy what an op gave for the last batch; None if it does not run here."""
        call = self.program.calls().get(op) if self.program.has_run else None
        return None if call is None else np.array(to_host(call.y))

    def take_spent(self) -> dict[str, float]:
        """Return the seconds since the last call that went into rows, see the Program's."""
        return self.program.take_spent()

    def release(self) -> None:
        """Let go of the batch under way."""
        for lap in self._laps:
            lap.release()
        self._laps = []

    def _collect(self) -> dict[str, Any]:
        """Wait for the copy down; what is returned lies in memory that the next batch uses again."""
        here = self._laps[-1].collect()
        self._brought = {name: here.pop(name).copy() for name in (_LOSS, _PREDICTION) if name in here}
        return here


def moved(feeds: Mapping[str, Any], xp: Any) -> dict[str, Any]:
    """Return feeds on a device, each array by a copy of its own; on a CPU as they are."""
    if xp is np:
        return dict(feeds)
    return {name: _with_arrays(v, (to_device(a, xp) for a in _arrays(v))) for name, v in feeds.items()}


def _arrays(value: Any) -> list[Any]:
    """Return what of a tensor has to be where it is computed with and is not; ids stay where they are."""
    if isinstance(value, Rows):
        if isinstance(value.values, RowsThere):
            values = value.values.arrays
        else:
            values = [value.values] if is_host(value.values) else []
        return [*values, *value.inverse, *(o for o in value.offsets if o is not None)]
    return [value.values, value.offsets] if hasattr(value, "offsets") else [value]


def _with_arrays(value: Any, arrays: Iterator[Any]) -> Any:
    """Return the tensor with other arrays, in the order of :func:`_arrays`."""
    if isinstance(value, Rows):
        if isinstance(value.values, RowsThere):
            values = value.values.arrive([next(arrays) for _ in value.values.arrays])
        else:
            values = next(arrays) if is_host(value.values) else value.values
        inverse = tuple(next(arrays) for _ in value.inverse)
        return Rows(values, inverse, tuple(None if o is None else next(arrays) for o in value.offsets), value.ids)
    return Lists(next(arrays), next(arrays)) if hasattr(value, "offsets") else next(arrays)


def _kept(array: F32, out: F32 | None) -> F32:
    if out is None:
        return array.copy()
    np.copyto(out, array)
    return out
