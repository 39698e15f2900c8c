"""Sliding windows over images: their geometry, and images laid out window by window (im2col) and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from heterps.device.arrays import Array
from heterps.graph.builtin_vision import pair
from heterps.kernels.jit import loop
from heterps.kernels.kernel import Call

__all__ = ["WindowShape", "columns", "uncolumns"]


class WindowShape(NamedTuple):
    """A window's size, steps and padding, and how many windows there are (vertical, horizontal)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    counts: tuple[int, int]

    @classmethod
    def of(cls, attrs: Mapping[str, Any], y: Array) -> WindowShape:
        """Read the geometry of an op whose result is ``y``."""
        kernel, stride = pair(attrs["kernel"], "kernel", 1), pair(attrs["stride"], "stride", 1)
        return cls(kernel, stride, pair(attrs["padding"], "padding", 0), (y.shape[1], y.shape[2]))

    @property
    def is_point(self) -> bool:
        """Whether windows are the pixels themselves."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and self.padding == (0, 0)

    def offsets(self, height: int, width: int) -> Iterator[tuple[int, tuple[slice, slice], tuple[slice, slice]]]:
        """Yield, for each position within a window, its number, the windows where it lies in the image, and where."""
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                rows, columns = self._span(0, i, height), self._span(1, j, width)
                if rows is not None and columns is not None:
                    yield i * self.kernel[1] + j, (rows[0], columns[0]), (rows[1], columns[1])

    def _span(self, axis: int, at: int, size: int) -> tuple[slice, slice] | None:
        step, shift = self.stride[axis], at - self.padding[axis]
        first = max(0, -(shift // step))
        last = min(self.counts[axis] - 1, (size - 1 - shift) // step)
        if last < first:
            return None
        begin = first * step + shift
        return slice(first, last + 1), slice(begin, last * step + shift + 1, step)


@loop
def lay_out(x, low, wide, kh, kw, sh, sw, ph, pw, oh, ow, out):  # type: ignore[no-untyped-def]
    """``out[window, (i, j, channel)]`` from images, channels ``low`` to ``low + wide``; zero in the padding."""
    n, height, width, _ = x.shape
    row = 0
    for b in range(n):
        for r in range(oh):
            for s in range(ow):
                at = 0
                for i in range(kh):
                    u = r * sh - ph + i
                    for j in range(kw):
                        v = s * sw - pw + j
                        if 0 <= u < height and 0 <= v < width:
                            for k in range(wide):
                                out[row, at + k] = x[b, u, v, low + k]
                        else:
                            for k in range(wide):
                                out[row, at + k] = 0
                        at += wide
                row += 1


@loop
def put_back(dcolumns, low, wide, kh, kw, sh, sw, ph, pw, oh, ow, dx):  # type: ignore[no-untyped-def]
    """Add gradients of windows to the pixels they came from, windows in order."""
    n, height, width, _ = dx.shape
    row = 0
    for b in range(n):
        for r in range(oh):
            for s in range(ow):
                at = 0
                for i in range(kh):
                    u = r * sh - ph + i
                    for j in range(kw):
                        v = s * sw - pw + j
                        if 0 <= u < height and 0 <= v < width:
                            for k in range(wide):
                                dx[b, u, v, low + k] += dcolumns[row, at + k]
                        at += wide
                row += 1


def columns(c: Call, x: Array, window: WindowShape, channels: tuple[int, int], out: Array) -> None:
    """Lay images out window by window: ``out`` is ``[windows, kernel * channels]``."""
    low, high = channels
    if c.loops:
        lay_out(x, low, high - low, *window.kernel, *window.stride, *window.padding, *window.counts, out)
        return
    whole = out.reshape(x.shape[0], *window.counts, window.kernel[0] * window.kernel[1], high - low)
    whole[...] = 0
    for at, (rows, cols), (u, v) in window.offsets(x.shape[1], x.shape[2]):
        whole[:, rows, cols, at] = x[:, u, v, low:high]


def uncolumns(c: Call, dcolumns: Array, window: WindowShape, channels: tuple[int, int], dx: Array) -> None:
    """Add the gradients of windows to those of the images."""
    low, high = channels
    if c.loops:
        put_back(dcolumns, low, high - low, *window.kernel, *window.stride, *window.padding, *window.counts, dx)
        return
    whole = dcolumns.reshape(dx.shape[0], *window.counts, window.kernel[0] * window.kernel[1], high - low)
    for at, (rows, cols), (u, v) in window.offsets(dx.shape[1], dx.shape[2]):
        target = dx[:, u, v, low:high]
        target += whole[:, rows, cols, at]
