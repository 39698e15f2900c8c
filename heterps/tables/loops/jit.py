"""How the loops of this package are compiled: three kinds, so that first use stays short.

numba makes wrappers for Python and for C around every function it compiles; with a dozen arrays in the arguments they
take longer to compile than the loop. So only functions that Python calls have one. Division by zero gives infinity
as in NumPy: an exception in the middle of an update would leave half a row.
"""

from __future__ import annotations

from numba import njit

__all__ = ["entry_loop", "inline", "inner_loop", "row_loop"]

#: Called from Python.
entry_loop = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)
#: Called from Python with many arrays; allocates none, so needs no counts of references. numba counts wherever an array
#: is taken out of a tuple or goes to an inlined function: atomic additions, for each block or even each row.
row_loop = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True, _nrt=False)
#: Called by other loops only, once per block of rows or seldom; allocates nothing either.
inner_loop = njit(
    nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True, _nrt=False
)
#: Called per row or per value: becomes part of the caller, since a call costs more than the work.
inline = njit(nogil=True, error_model="numpy", inline="always")
