"""Much is about to be made that stays: modules, classes, a cluster. The garbage collector keeps out of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["keeping"]


@contextmanager
def keeping() -> Iterator[None]:
    """Be a context, or decorate a function, in which things are made that will be there for long.

    The collector looks through everything again whenever a quarter more is there: a tenth of the time to a first batch,
    while two hundred thousand objects of modules come to be and none can go. Afterwards what is there is old at once,
    or the next look at what is young would be at all of it.
    """
    if not gc.isenabled():  # someone's wish, or a context around this one
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # what a program has frozen stays so
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        gc.enable()
