"""What compiled libraries print is kept out of what commands print."""

import subprocess
import sys

SCRIPT = """
import ctypes
from heterps.cli._own_words import own_words_only

print("before", end=" ")
with own_words_only():
    ctypes.CDLL(None).printf(b"words of a library\\n")
print("after")
"""


def test_words_of_libraries_are_dropped():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout == "before after\n"


def test_a_closed_output_stays_closed():
    script = (
        "import os\nfrom heterps.cli._own_words import own_words_only\nos.close(1)\nwith own_words_only():\n    pass"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
