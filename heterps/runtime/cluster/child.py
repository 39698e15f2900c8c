"""Start a program that ends with its parent: ``python child.py PARENT_PID PROGRAM ARGUMENTS...``.

Stands alone (standard library only, no package imports) because it runs before every process of a launch.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        sys.exit(1)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
