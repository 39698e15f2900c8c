"""Dense parameters with their optimiser slots in the memory of a device; a shard does not see the difference.

Everything is queued on the current stream of the calling thread, and a push under the block's lock; so whoever copies
parameters on the same stream has all of a push or nothing of it. The host waits only where it is given numbers.
Not run on a GPU yet.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.device.arrays import Array, Namespace, is_host, to_device, to_host
from heterps.device.raw import runs_kernels
from heterps.errors import TableError
from heterps.tables.live.dense import DenseBlock, flat_gradient
from heterps.tables.on_device.array_rules import array_rule
from heterps.tables.on_device.row_words import kernels_for
from heterps.tables.specs.rules import Rule
from heterps.tables.specs.spec import DenseSpec

__all__ = ["DeviceDense"]

F32 = npt.NDArray[np.float32]


class DeviceDense:
    """Values and optimiser slots of dense parameters on a device; see :class:`~heterps.tables.live.dense.DenseBlock`.

    Parameters
    ----------
    specs, seed
        What there is, and what first values follow from.
    xp
        Array library of the device. Built-in rules run as CUDA or as array functions, others as CUDA.
    """

    def __init__(self, specs: Sequence[DenseSpec], *, seed: int, xp: Namespace) -> None:
        first = DenseBlock(specs, seed=seed)
        self.specs, self.where, self.slots_where = first.specs, first.where, first.slots_where
        self.xp, self.lock = xp, threading.Lock()
        self._rate = 1.0  # learning rates are multiplied by it
        self._update = {spec.rule: _update_for(spec.rule, xp) for spec in self.specs}
        self._values, self._slots = to_device(first.values, xp), to_device(first.slots, xp)
        self._skipped: Array = xp.zeros(1, np.int32)  # rows left as they were since somebody asked

    def __len__(self) -> int:
        return int(self._values.shape[0])

    def __getitem__(self, name: str) -> F32:
        """Return a copy of a parameter in its own shape, on the host."""
        if name not in self.where:
            raise TableError(f"no dense parameter {name!r} here; there are {list(self.where)}")
        shape = next(spec.shape for spec in self.specs if spec.name == name)
        return to_host(self._values[self.where[name]]).reshape(shape)

    @property
    def values(self) -> F32:
        """A copy on the host; there is no live view of what is on a device."""
        return to_host(self._values)

    @property
    def slots(self) -> F32:
        """A copy on the host."""
        return to_host(self._slots)

    @property
    def nbytes(self) -> int:
        """Bytes in use, on the device."""
        return int(self._values.nbytes + self._slots.nbytes)

    def set(self, name: str, values: npt.ArrayLike, slots: npt.ArrayLike | None = None) -> None:
        """Replace the values of a parameter, and its slots if given."""
        with self.lock:
            flat = np.asarray(values, np.float32).reshape(-1)
            self._values[self.where[name]] = to_device(flat, self.xp)
            if slots is not None:
                self._slots[self.slots_where[name]] = to_device(np.asarray(slots, np.float32), self.xp)

    def pull(self, out: F32 | None = None) -> F32:
        """Return a copy of all values on the host, flat, in the order of the specs."""
        with self.lock:
            here = to_host(self._values)
        if out is None:
            return here
        np.copyto(out, here)
        return out

    def pull_there(self) -> Array:
        """Return a copy of all values on the device; nobody waits for it."""
        with self.lock:
            return self._values.copy()

    def push(self, gradient: Array | Mapping[str, Any], *, step: int = 0) -> int:
        """Apply a flat gradient, from the host or the device, or one by name.

        Rows with a gradient that is not finite are left as they are; :meth:`take_skipped` tells how many.
        """
        flat = flat_gradient(gradient, self.specs, len(self._values))
        there = to_device(flat, self.xp) if is_host(flat) else flat
        with self.lock:
            for spec in self.specs:
                values, slots = self._values[self.where[spec.name]], self._slots[self.slots_where[spec.name]]
                update = self._update[spec.rule]
                packed = spec.rule.at_rate(self._rate).packed(step)
                self._skipped += update(spec, packed, values, slots, there[self.where[spec.name]])
        return 0

    def set_rate(self, rate: float) -> None:
        """Multiply learning rates by a factor from now on."""
        with self.lock:
            self._rate = rate

    def take_skipped(self) -> int:
        """Return how many rows were left as they were since the last call; waits for the device."""
        with self.lock:
            skipped, self._skipped = self._skipped, self.xp.zeros(1, np.int32)
        return int(to_host(skipped)[0])


def _update_for(rule: Rule, xp: Namespace) -> Any:
    """Return ``update(spec, packed, values, slots, gradient)``, which gives the number of rows it left out, there."""
    return _by_kernel(rule, xp) if runs_kernels(xp) else _by_arrays(rule, xp)


def _by_kernel(rule: Rule, xp: Namespace) -> Any:
    kernels = kernels_for(rule, xp)

    def update(spec: DenseSpec, packed: F32, values: Array, slots: Array, gradient: Array) -> Array:
        n, left_out = spec.size // spec.rows, xp.zeros(1, np.int32)
        numbers = to_device(packed, xp)
        head = (np.int32(rule.code), numbers, values, slots, gradient)
        tail = (np.int32(n), np.int32(rule.slots(n)), left_out, np.int64(spec.rows))
        kernels.launch("apply_dense", spec.rows, (*head, *tail))
        return left_out

    return update


def _by_arrays(rule: Rule, xp: Namespace) -> Any:
    formula = array_rule(rule)

    def update(spec: DenseSpec, packed: F32, values: Array, slots: Array, gradient: Array) -> Array:
        numbers = [float(number) for number in packed]
        w, s, g = (array.reshape(spec.rows, -1) for array in (values, slots, gradient))
        good = xp.all(xp.isfinite(g), axis=1, keepdims=True)
        new, kept = formula(xp, numbers, w, s, xp.where(good, g, xp.zeros_like(g)))
        if rule.bounds is not None:
            new = xp.minimum(xp.maximum(new, numbers[0]), numbers[1])
        w[...] = xp.where(good, new, w)
        if slots.shape[0]:
            s[...] = xp.where(good, kept, s)
        return xp.sum(xp.logical_not(good), dtype=np.int32).reshape(1)

    return update
