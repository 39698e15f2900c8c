"""How the parsers are compiled: they take records of arrays and allocate nothing.

numba counts references wherever an array is taken out of a record: atomic additions, for each value of a line. Parsers
allocate no arrays, so they go without. It also makes wrappers for Python and for C around every function, which take
longer to compile than the loop when there are many arrays in the arguments: only what Python calls has one.
"""

from __future__ import annotations

from numba import njit

__all__ = ["inner_loop", "row_loop"]

#: Called from Python, once per block of lines.
row_loop = njit(nogil=True, cache=True, no_cfunc_wrapper=True, _nrt=False)
#: Called by other loops only.
inner_loop = njit(nogil=True, cache=True, no_cfunc_wrapper=True, no_cpython_wrapper=True, _nrt=False)
