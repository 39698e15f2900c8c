"""``heterps plan --commands``: what is printed is really started."""

import os
import re
import signal

import pytest

from tests.cluster.test_many_hosts import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.timeout(240)]

MODEL = "wide_deep --set slots=19 --set dense=5"
PLAN = f"heterps plan {MODEL} --batch-size 1024 --data adult:train --out plan.json --commands"


def test_the_command_for_one_machine_trains_the_plan(launched):
    (launched.folder / "all.sh").write_text(
        f"set -e\n{PLAN} > line.sh\ncat line.sh\nbash line.sh\necho ended > ended\n"
    )
    launched.start_words("bash", "all.sh")
    launched.wait_for("ended")
    assert (launched.folder / "line.sh").read_text().startswith("heterps launch --servers 1 --io ")
    launched.wait_until_gone()


def test_the_commands_for_many_machines_train_the_plan(launched):
    (launched.folder / "plan.sh").write_text(f"{PLAN} --hosts 127.0.0.1 > commands.sh && echo made > made\n")
    planning = launched.start_words("bash", "plan.sh")
    launched.wait_for("made")
    planning.communicate(timeout=30)
    commands = launched.folder / "commands.sh"
    text = re.sub(r"8786", str(free_port()), commands.read_text())
    assert text.count("dask worker") >= 2
    commands.write_text(f"{text.rstrip()} && echo ended > ended\n")  # one command, on one line
    process = launched.start_words("bash", "commands.sh")
    try:
        launched.wait_for("ended")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
    launched.wait_until_gone()
