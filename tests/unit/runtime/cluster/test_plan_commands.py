"""Which workers a plan's commands start."""

from dataclasses import replace

import pytest

from graphs.wide_deep import wide_deep
from heterps.errors import ClusterError
from heterps.hardware import Hardware
from heterps.planner.costs.expectation import by_hand
from heterps.runtime.cluster.plan_commands import plan_commands, workers_of

HARDWARE = Hardware.from_toml(
    "".join(
        f'[[pool]]\nname = "{name}"\ndevice = "{device}"\n'
        for name, device in (("cpu", "c6i-8xlarge"), ("slow", "c6i-8xlarge"), ("l4", "l4"), ("fast", "l4"))
    )
)
READ, REST = ["read", "pull*"], ["*"]


def made(*stages, **rest):
    return by_hand(wide_deep(), HARDWARE, stages, batch_size=64, **rest)


@pytest.mark.parametrize(
    ("stages", "workers"),
    [
        ([("cpu", REST, 3)], {"server": 2, "io": 3}),
        ([("cpu", READ, 3), ("l4", REST, 2)], {"server": 2, "io": 3, "l4": 2}),
        ([("cpu", READ, 3), ("fast", REST, 2)], {"server": 2, "io": 3, "gpu": 2}),
        ([("cpu", READ, 3), ("slow", REST, 2)], {"server": 2, "io": 3, "compute": 2}),
        ([("cpu", READ, 3), ("cpu", REST, 2)], {"server": 2, "io": 5}),
    ],
    ids=["fused", "named gpu", "gpu", "cpu", "one pool"],
)
def test_workers_declare_what_they_do(stages, workers):
    assert workers_of(made(*stages, shard_hosts=2)) == workers


def test_a_backup_needs_a_worker_of_its_own():
    assert workers_of(replace(made(("cpu", REST, 1)), replicas=2))["server"] == 2


def test_the_line_for_one_machine():
    line = plan_commands(made(("cpu", READ, 3), ("l4", REST, 2)), ["my plan.json", "--data", "a*.tsv"])
    assert line == ("heterps launch --servers 1 --io 3 --pool l4=2 -m heterps train 'my plan.json' --data 'a*.tsv'")


def test_the_lines_for_many_machines_have_the_cores_of_a_unit():
    text = plan_commands(made(("cpu", REST, 2)), ["plan.json"], hosts="127.0.0.1")
    assert text.count("--resources HPS_IO=1") == 2
    assert text.count(f"--nthreads {HARDWARE.pool('cpu').device.cores}") == 3
    assert text.endswith("python -m heterps train plan.json")


def test_two_pools_of_gpus_need_names():
    plan = made(("cpu", READ, 1), ("fast", ["deep*"], 1), ("l4", REST, 1))
    other = replace(
        plan,
        pools=tuple(replace(p, name="quick") if p.name == "l4" else p for p in plan.pools),
        stages=tuple(replace(s, pool="quick") if s.pool == "l4" else s for s in plan.stages),
    )
    with pytest.raises(ClusterError, match="two pools of GPUs"):
        workers_of(other)
