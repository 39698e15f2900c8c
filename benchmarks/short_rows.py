"""What rows take whose columns wait for a score (embedx on demand): ``python -m benchmarks.short_rows [--rows 1e6]``.

Nine of ten ids are seen once, the others often enough. Beside it the same table whose rows have all columns from the
start. Memory is that of indices and rows, and what the process grew by; times are CPU time of one thread an id.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

import numpy as np

from benchmarks.tables import rss, spread
from heterps.protocol import BatchKey
from heterps.tables import AdaGrad, CtrAccessor, GroupSpec, KeyedShard, RowGradients, TableSpec

BATCH = 32_768


class Table:
    """A table of click features, filled and then trained."""

    def __init__(self, dim: int, embed: int) -> None:
        accessor = CtrAccessor(embed=embed, embedx_threshold=5.0)
        self.dim, self.n = dim, 0
        self.shard = KeyedShard([GroupSpec("g", (TableSpec("t", dim, AdaGrad(0.05), accessor=accessor),))])
        self.gradients = np.full((BATCH, dim), 0.01, np.float32)
        self.seconds = {"pull": 0.0, "push": 0.0}

    def train(self, ids: np.ndarray, clicks: float) -> None:
        """Pull and push ids some at a time, each shown once with so many clicks."""
        for some in np.array_split(ids, -(-len(ids) // BATCH)):
            counts = np.full(len(some), clicks, np.float32)
            pulled = self._timed("pull", lambda some=some: self.shard.pull("g", some))
            rows = RowGradients(some, self.gradients[: len(some)], pulled.rows, show=counts + 1, click=counts)
            self.n += 1
            self._timed("push", lambda rows=rows: self.shard.push(BatchKey(0, 0, self.n), {"g": rows}))

    def _timed(self, what: str, act: Callable[[], object]) -> object:
        began = time.thread_time()
        found = act()
        self.seconds[what] += time.thread_time() - began
        return found


def measure(name: str, rows: int, dim: int, embed: int) -> None:
    before = rss()
    table = Table(dim, embed)
    ids = spread(np.random.default_rng(0).permutation(rows).astype(np.uint64))
    often = ids[: rows // 10]
    table.train(ids, 0.0)
    table.train(often, 9.0)
    grown, held = rss() - before, table.shard.groups["g"].nbytes
    mixed = spread(np.random.default_rng(1).choice(rows, min(rows, 8 * BATCH), replace=False).astype(np.uint64))
    for half, clicks in ((often, 1.0), (mixed, 0.0)):
        table.seconds = dict.fromkeys(table.seconds, 0.0)
        table.train(half[: 8 * BATCH], clicks)
        ns = {what: 1e9 * s / len(half[: 8 * BATCH]) for what, s in table.seconds.items()}
        which = "ids seen often" if half is often else "any ids"
        print(f"  {name:12s} {which:15s} pull {ns['pull']:5.0f} push {ns['push']:5.0f} ns an id")
    print(f"  {name:12s} {held / rows:6.1f} bytes a row, {held / 1e6:.0f} MB; the process grew by {grown / 1e6:.0f} MB")
    del table
    gc.collect()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--dims", type=int, nargs="*", default=[17, 33])
    args = parser.parse_args()
    for dim in args.dims:
        Table(dim, 1).train(np.arange(64, dtype=np.uint64), 9.0)  # compiles
        Table(dim, dim).train(np.arange(64, dtype=np.uint64), 9.0)
        print(f"{int(args.rows):,} rows of {dim} values under AdaGrad, one in ten seen often")
        measure("all at once", int(args.rows), dim, dim)
        measure("on demand", int(args.rows), dim, 1)


if __name__ == "__main__":
    main()
