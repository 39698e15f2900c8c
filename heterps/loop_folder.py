"""A folder for compiled loops where neither the package nor the home of the user can be written."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from contextlib import suppress

__all__ = ["loop_folder"]


def loop_folder() -> str:
    """Return a folder below that for temporary files, which all processes of this user share.

    Code is run from it, so it must be nobody else's; if somebody has taken the name, this process gets one of its own.
    """
    path = os.path.join(tempfile.gettempdir(), f"heterps-loops-{os.getuid()}")
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
        return path
    own = tempfile.mkdtemp(prefix="heterps-loops-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own
