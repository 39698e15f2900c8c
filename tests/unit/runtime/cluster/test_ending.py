"""A process that was told to end does so, whatever keeps it."""

import subprocess
import sys

STUCK = """
import asyncio
from heterps.runtime.cluster.ending import end_by_force

async def never():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def main():
    asyncio.get_running_loop().create_task(never())
    await asyncio.sleep(0)
    end_by_force(0.1)

asyncio.run(main())
"""


def test_a_task_that_cannot_be_cancelled_keeps_no_process() -> None:
    assert subprocess.run([sys.executable, "-c", STUCK], timeout=60, check=False).returncode == 143
