"""Keep standard output to what Python prints: HiGHS 1.12 has a line for it that no option turns off.

It prints that where a solution of a program that it simplified is one of the program itself only once its columns that
are not whole were worked out again, as where coefficients differ by many orders of magnitude.
"""

from __future__ import annotations

import ctypes
import os
import threading

__all__ = ["own_words_only"]


class _OwnWordsOnly:
    """Drop what compiled libraries print meanwhile: JSON or commands may go there.

    C's ``stdout`` is another file until all threads that came in are out. Descriptor 1 stays what it is, as other
    threads may print while HiGHS is at work, and Python prints there itself. Where C's library is not GNU's, whose
    ``stdout`` can be set, nothing is dropped.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._stdout = self._kept = self._nowhere = ctypes.c_void_p()
        if os.confstr("CS_GNU_LIBC_VERSION"):
            library = ctypes.CDLL(None)
            library.fopen.restype = ctypes.c_void_p
            self._stdout = ctypes.c_void_p.in_dll(library, "stdout")
            self._nowhere = ctypes.c_void_p(library.fopen(os.devnull.encode(), b"w"))

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._kept = ctypes.c_void_p(self._stdout.value)
                self._stdout.value = self._nowhere.value
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._stdout.value = self._kept.value


own_words_only = _OwnWordsOnly()
