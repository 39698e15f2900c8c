"""Rows on disk that are read while a pull has to wait for others: when its turn comes they are in memory."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from weakref import ref

import numpy as np
import numpy.typing as npt

from heterps.errors import HeterpsError
from heterps.runtime.batch.payload import Wanted
from heterps.tables import Shard

__all__ = ["read_ahead"]


def read_ahead(shard: Shard | None, wanted: Wanted) -> None:
    """Begin to read what a pull will ask for; nothing changes, and nobody waits."""
    if shard is None:
        return
    for name, ids in wanted.ids.items():
        if shard.on_disk(name):
            _reader().submit(_read, ref(shard), name, ids.copy())  # its buffer is the sender's


def _read(of: ref[Shard], group: str, ids: npt.NDArray[np.uint64]) -> None:
    shard = of()
    if shard is not None:
        with suppress(HeterpsError):  # whoever pulls these rows is told
            shard.prefetch(group, ids)


@cache
def _reader() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="rows-ahead")


os.register_at_fork(after_in_child=_reader.cache_clear)  # threads do not come along
