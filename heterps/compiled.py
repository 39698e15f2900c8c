"""How loops are compiled and kept on disk: the kinds of loops, and what numba did for each of them.

numba makes wrappers for Python and for C around every function it compiles; with a dozen arrays in the arguments they
take longer to compile than the loop. So only functions that Python calls have one. Division by zero gives infinity as
in NumPy: an exception in the middle of an update would leave half a row.

Of processes that want a loop at once one compiles it, and the others read what it wrote.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from heterps.loop_claim import claimed
from heterps.loop_folder import loop_folder
from heterps.loop_key import loop_key

__all__ = ["Warmed", "accounts", "compiling", "entry_loop", "inline", "inner_loop", "is_kept", "njit", "row_loop"]


class _LoopCache(FunctionCache):
    """numba's cache of a loop, in files named after everything that became part of the loop.

    numba looks at the loop's own file only: with another function inlined from elsewhere it would go on running the
    old one. Other contents have other names, so that no process takes a loop for one that another is about to replace.
    """

    def __init__(self, loop: Any) -> None:
        try:
            super().__init__(loop.py_func)
        except RuntimeError:  # numba found no folder that can be written
            numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = loop_folder()
            super().__init__(loop.py_func)
        self._loop = loop
        self._found = False  # whether the files are known: what a loop uses may be defined behind it
        self._writes = True  # whether nobody else is about to write them

    def _find_files(self) -> None:
        if not self._found:
            key = loop_key(self._loop)
            name = f"{self._impl.filename_base}.{key}"
            self._cache_file = IndexDataCacheFile(cache_path=self._cache_path, filename_base=name, source_stamp=key)
            self._found = True

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read a form of the loop from disk, None if it is not there.

        What numba knows about compiling takes half a second to import: whoever compiles loads it, numba's own way of
        reading does so too. Machine code needs the part that counts references, no more.
        """
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        self._find_files()
        return super()._load_overload(sig, target_context)

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self._writes:
            self._find_files()
            super()._save_overload(sig, data)

    def claim(self, sig: Any, target_context: Any, stack: ExitStack) -> None:
        """See to it that, until the stack is closed, a form of the loop is there or nobody else compiles the loop.

        numba adds a form by reading the list of them, and writing it with one more: two that do so at once give two
        forms one file. So only who holds the claim writes.
        """
        self._find_files()
        key, path = self._index_key(sig, target_context.codegen()), f"{self._cache_file._index_path}.claim"
        if self._is_there(key):
            return
        with suppress(OSError):  # a folder that cannot be written, or not be locked: numba says what it thinks of it
            self._impl.locator.ensure_cache_path()
            self._writes = stack.enter_context(claimed(path, lambda: self._is_there(key)))

    @property
    def is_kept(self) -> bool:
        """Whether the disk has any form of the loop."""
        self._find_files()
        return os.path.exists(self._cache_file._index_path)

    def _is_there(self, key: Any) -> bool:
        name = self._cache_file._load_index().get(key)
        return name is not None and os.path.exists(self._cache_file._data_path(name))


class _Loop(CPUDispatcher):
    """A loop that is kept on disk."""

    _cache: Any

    @property
    def kept(self) -> _LoopCache:
        """Its cache, made when it is first asked for: finding a place on disk takes longer than all else at import."""
        if not isinstance(self._cache, _LoopCache):
            self._cache = _LoopCache(self)
        return self._cache

    def compile(self, sig: Any) -> Any:
        # Our other threads first: none waits for a claim that another holds which waits for it.
        with global_compiler_lock, ExitStack() as stack:
            _NOW.append(self.__name__)
            stack.callback(_NOW.pop)
            self.kept.claim(sig, self.targetctx, stack)
            return super().compile(sig)


_NOW: list[str] = []  # loops that are compiled, waited for or read at the moment, callers before what they call


def compiling() -> str:
    """Return the name of the loop that Python has called and that is being compiled, "" if there is none."""
    return next(iter(_NOW), "")


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator of that name, but for a cache that knows what was inlined."""

    def compiled(function: Callable[..., Any]) -> Any:
        loop = numba.njit(**options)(function)
        if cache and hasattr(loop, "py_func"):  # else numba is switched off
            loop.__class__ = _Loop
        return loop

    return compiled


#: Called from Python.
entry_loop = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)
#: Called from Python with many arrays; allocates none, so needs no counts of references. numba counts wherever an array
#: is taken out of a tuple or goes to an inlined function: atomic additions, for each value of a line or row of a table.
row_loop = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True, _nrt=False)
#: Called by other loops only, once per block of rows or seldom; allocates nothing either.
inner_loop = njit(
    nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True, _nrt=False
)
#: Called per row or per value: becomes part of the caller, since a call costs more than the work.
inline = njit(nogil=True, error_model="numpy", inline="always")


def is_kept(loop: Any) -> bool:
    """Say whether the disk has a loop, in whatever form; True for what is never kept."""
    return not isinstance(loop, _Loop) or loop.kept.is_kept


class Warmed(NamedTuple):
    """How one loop came to be there: forms compiled just now, forms read from the cache on disk."""

    loop: str
    compiled: int
    cached: int


def accounts(package: str) -> tuple[Warmed, ...]:
    """Return what numba did for every loop of a package's modules."""
    modules = [module for name, module in sys.modules.items() if name.startswith(package)]
    loops: dict[str, Any] = {}
    for module in modules:
        for name, value in vars(module).items():
            if hasattr(value, "stats") and hasattr(value, "py_func") and value.py_func.__module__ == module.__name__:
                loops[f"{module.__name__.removeprefix('heterps.')}.{name}"] = value.stats
    return tuple(
        Warmed(name, sum(stats.cache_misses.values()), sum(stats.cache_hits.values()))
        for name, stats in sorted(loops.items())
        if stats.cache_misses or stats.cache_hits
    )
