"""Batch sizes: where workers have little memory, a plan that fits is found before deeper ones are looked for."""

from benchmarks.plan_scale import SMALL_MEMORY, chain
from heterps.hardware import Hardware
from heterps.planner import FixedRate, plan
from heterps.planner.solve import choose

GOAL = FixedRate(5e4)


def test_all_batch_sizes_are_looked_at_before_plans_are_made_deeper(monkeypatch):
    asked, planned = [], choose.planned

    def recorded(problem, *args, **options):
        asked.append(problem.way_from)
        return planned(problem, *args, **options)

    monkeypatch.setattr(choose, "planned", recorded)
    hardware, graph = Hardware.from_toml(SMALL_MEMORY), chain(200)
    made = plan(graph, hardware, goal=GOAL)
    deeper = [way > 0 for way in asked]
    assert any(deeper), "nothing of this case is without room"
    assert deeper[:8] == [False] * 8  # batches of 256 to 32,768
    alone = plan(graph, hardware, goal=GOAL, batch_size=made.batch_size)
    assert made.certificate.value <= alone.certificate.value * (1 + 1e-3)
