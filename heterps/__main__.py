"""The program ``heterps`` (``python -m heterps``): what must be in order before anything slow is imported."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

__all__ = ["main"]


def main() -> None:
    """Run the command; Ctrl-C is one line also while modules are imported, before the command looks after it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # who ignores it (nohup) goes on ignoring it
        signal.signal(signal.SIGINT, _stopped_early)
    _open_streams()
    from heterps.cli import main as command

    command()


def _stopped_early(number: int, frame: FrameType | None) -> None:
    """Nothing was begun yet, so there is nothing to put away."""
    os.write(2, b"stopped by SIGINT\n")
    os._exit(128 + number)


def _open_streams() -> None:
    """Let output that was closed (``>&-``) go nowhere, and a terminal without our letters show others in their place.

    A file that is opened while a standard stream is closed would get its number, and with it what C libraries print.
    """
    for number, (name, how) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, how, encoding="utf-8"))  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")


if __name__ == "__main__":
    main()
