"""Dense parameters of one shard host: one flat float32 buffer, one pass of each parameter's rule over it."""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heterps.compiled import entry_loop
from heterps.errors import TableError
from heterps.tables.loops.rule_calls import address_of, call_rule, check_rules
from heterps.tables.loops.store import BLOCK
from heterps.tables.loops.vector_lanes import all_finite
from heterps.tables.specs.initialisers import first_values
from heterps.tables.specs.rules import NUMBERS, Sum
from heterps.tables.specs.spec import DenseSpec

__all__ = ["DenseBlock", "flat_gradient"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@entry_loop
def _apply(values: F32, slots: F32, grad: F32, plan: I64, numbers: F32) -> Any:
    """Apply each parameter's rule row by row; return how many rows had a NaN or Inf gradient and were skipped."""
    bits = grad.view(np.uint32)
    starts, slot_starts = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    ones = np.ones(BLOCK, np.float32)
    skipped = 0
    for k in range(plan.shape[0]):
        update, start, n, slot, per_row = np.uint64(plan[k, 0]), plan[k, 1], plan[k, 3], plan[k, 4], plan[k, 5]
        m = 0
        for r in range(plan[k, 2]):
            starts[m], slot_starts[m] = start + r * n, slot + r * per_row
            if all_finite(bits, starts[m], np.uint64(n)):
                m += 1
            else:
                skipped += 1
            if m == BLOCK or r + 1 == plan[k, 2]:
                call_rule(update, numbers, k, values, starts, slots, slot_starts, grad, starts, ones, m, np.uint64(n))
                m = 0
    return skipped


class DenseBlock:
    """Values and optimiser slots of dense parameters.

    First values are a function of (seed, name, row), as for sparse rows.

    Parameters
    ----------
    specs, seed
        What there is, and of what its first values are made.
    adds
        What arrives are changes to be added, not gradients for the rules.
    pushed
        Names of those that pushes are for, None for all: the others are held for somebody else, and set by name.
    """

    def __init__(
        self, specs: Sequence[DenseSpec], *, seed: int, adds: bool = False, pushed: Container[str] | None = None
    ) -> None:
        self.specs = tuple(specs)
        self._rate = 1.0  # learning rates are multiplied by it
        self._applied = tuple(Sum(bounds=s.rule.bounds) if adds else s.rule for s in self.specs)
        check_rules(self._applied)
        self._pushed = [k for k, spec in enumerate(self.specs) if pushed is None or spec.name in pushed]
        self.lock = threading.Lock()
        names = [spec.name for spec in self.specs]
        if len(set(names)) < len(names):
            raise TableError(f"two dense parameters of one name: {names}")
        bounds = np.cumsum([0, *(spec.size for spec in self.specs)])
        self.where = {
            s.name: slice(int(a), int(b)) for s, a, b in zip(self.specs, bounds[:-1], bounds[1:], strict=True)
        }
        self.values = np.empty(int(bounds[-1]), np.float32)
        parts = [np.tile(spec.rule.first_slots(spec.size // spec.rows), spec.rows) for spec in self.specs]
        self.slots = np.concatenate([*parts, np.empty(0, np.float32)]).astype(np.float32)
        self._plan = self._make_plan([len(part) for part in parts])
        self._numbers = self._make_numbers(0)
        self._has_updates = False
        for spec in self.specs:
            self.values[self.where[spec.name]] = initial(spec, seed).ravel()

    def _make_plan(self, slots: Sequence[int]) -> I64:
        starts = np.cumsum([0, *slots])
        rows = [
            [0, self.where[s.name].start, s.rows, s.size // s.rows, starts[k], slots[k] // s.rows]
            for k, s in enumerate(self.specs)
        ]
        return np.array(rows, np.int64).reshape(len(rows), 6)

    def _make_numbers(self, step: int) -> F32:
        packed = [rule.at_rate(self._rate).packed(step) for rule in self._applied]
        return np.array(packed, np.float32).reshape(len(self.specs), NUMBERS)

    def set_rate(self, rate: float) -> None:
        """Multiply learning rates by a factor from now on."""
        with self.lock:
            self._rate = rate
            self._numbers = self._make_numbers(0)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self.values.nbytes + self.slots.nbytes

    def __getitem__(self, name: str) -> F32:
        """Return a live view of a parameter in its own shape."""
        if name not in self.where:
            raise TableError(f"no dense parameter {name!r} here; there are {list(self.where)}")
        shape = next(spec.shape for spec in self.specs if spec.name == name)
        return self.values[self.where[name]].reshape(shape)

    @property
    def slots_where(self) -> dict[str, slice]:
        """Where the optimiser slots of each parameter stand."""
        bounds = [*self._plan[:, 4].tolist(), len(self.slots)]
        return {spec.name: slice(*bounds[k : k + 2]) for k, spec in enumerate(self.specs)}

    def set(self, name: str, values: npt.ArrayLike, slots: npt.ArrayLike | None = None) -> None:
        """Replace the values of a parameter, and its slots if given."""
        with self.lock:
            self[name][...] = np.asarray(values, np.float32).reshape(self[name].shape)
            if slots is not None:
                self.slots[self.slots_where[name]] = slots

    def pull(self, out: F32 | None = None) -> F32:
        """Return a copy of all values, flat, in the order of the specs."""
        out = np.empty_like(self.values) if out is None else out
        with self.lock:
            np.copyto(out, self.values)
        return out

    def pull_slots(self, out: F32 | None = None) -> tuple[F32, F32]:
        """Return copies of all values and of all optimiser slots, as of one moment."""
        out = np.empty_like(self.values) if out is None else out
        with self.lock:
            np.copyto(out, self.values)
            return out, self.slots.copy()

    def pull_pushed(self, out: F32 | None = None) -> F32:
        """Return a copy of the values that pushes are for, one behind the other."""
        if len(self._pushed) == len(self.specs):
            return self.pull(out)
        with self.lock:
            return np.concatenate([*(self.values[span] for span in self._spans), np.empty(0, np.float32)], out=out)

    @property
    def _spans(self) -> list[slice]:
        return [self.where[self.specs[k].name] for k in self._pushed]

    def pull_there(self) -> F32:
        """Return a copy where the parameters are, which is here."""
        return self.pull()

    def take_skipped(self) -> int:
        """Return how many rows were left as they were of which no push has told: none."""
        return 0

    def push(self, gradient: F32 | Mapping[str, Any], *, step: int = 0) -> int:
        """Apply a gradient of those that pushes are for, flat or by name; return the rows skipped for NaN or Inf."""
        whole = len(self._pushed) == len(self.specs)
        given = gradient if whole or isinstance(gradient, Mapping) else self._spread(gradient)
        grad = np.ascontiguousarray(flat_gradient(given, self.specs, len(self.values)))
        with self.lock:
            if not self._has_updates:
                self._plan[:, 0], self._has_updates = [address_of(rule) for rule in self._applied], True
            plan = self._plan if whole else self._plan[self._pushed]
            if any(rule.scheduled for rule in self._applied):
                self._numbers = self._make_numbers(step)
            numbers = self._numbers if whole else self._numbers[self._pushed]
            return int(_apply(self.values, self.slots, grad, plan, numbers))

    def _spread(self, gradient: F32) -> F32:
        """Put the pieces of a gradient where their parameters stand; what stands between is not looked at."""
        flat, at = np.zeros_like(self.values), 0
        for span in self._spans:
            flat[span] = gradient[at : at + span.stop - span.start]
            at += span.stop - span.start
        if at != len(gradient):
            raise TableError(f"dense gradient has {len(gradient)} numbers, the parameters it is for have {at}")
        return flat


def flat_gradient(gradient: Any, specs: Sequence[DenseSpec], size: int) -> Any:
    """Return a dense gradient as one flat array, wherever that is; by name it may come in arrays of the host."""
    if isinstance(gradient, Mapping):
        parts = [np.asarray(gradient[spec.name], np.float32).ravel() for spec in specs]
        gradient = np.concatenate([*parts, np.empty(0, np.float32)])
    if gradient.shape != (size,) or gradient.dtype != np.float32:
        raise TableError(f"dense gradient must be float32 of shape ({size},), got {gradient.dtype} {gradient.shape}")
    return gradient


def initial(spec: DenseSpec, seed: int) -> F32:
    """Return the first values of a dense parameter; Xavier takes its fans from the shape."""
    rows, n = spec.rows, spec.size // spec.rows
    init = spec.init
    if hasattr(init, "fan_in") and not init.fan_in:
        init = type(init)(fan_in=rows, fan_out=n)  # type: ignore[call-arg]
    return first_values(init, n, seed=seed, table=spec.name, ids=np.arange(rows, dtype=np.uint64)).reshape(spec.shape)
