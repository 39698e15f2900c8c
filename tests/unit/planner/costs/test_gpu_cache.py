"""Caches in the memory of GPUs in plans: named in the report, refused where they do not fit."""

from dataclasses import replace

import pytest

import heterps as hps
from graphs.wide_deep import wide_deep
from heterps.errors import PlanError
from heterps.hardware import Hardware
from heterps.planner import MinCost, plan

ROWS = 50_000


def made(hardware: Hardware, rows: int | str = ROWS, pin: str = "*") -> hps.Plan:
    ways = {"deep": f"cache:{rows}", "wide": f"cache:{rows}"}
    return plan(wide_deep(), hardware, goal=MinCost(1e4), batch_size=4096, pins={pin: "gpu"}, parameters=ways)


def with_memory(hardware: Hardware, memory_bytes: float) -> Hardware:
    pools = tuple(
        replace(pool, device=replace(pool.device, memory_bytes=memory_bytes)) if pool.kind == "gpu" else pool
        for pool in hardware.pools
    )
    return replace(hardware, pools=pools)


def said(found: hps.Plan) -> list[str]:
    return [line for line in found.assumptions if line.startswith("cache of deep, wide") and " on " in line]


def test_the_report_names_the_device_and_what_the_rows_take(rented: Hardware) -> None:
    found = made(rented)
    assert found.is_fused
    assert said(found) == ["cache of deep, wide: 50.0k rows on l4 take 13.6 MB"]
    assert said(found)[0] in found.report()


def test_in_a_plan_of_stages_the_cache_is_where_data_is_read(rented: Hardware) -> None:
    found = made(rented, pin="fc*")
    assert not found.is_fused
    assert any("in the memory of the workers that read the data" in line for line in found.assumptions)


def test_one_that_does_not_fit_is_refused_with_the_rows_that_would(rented: Hardware) -> None:
    with pytest.raises(PlanError, match=r"the cache of deep, wide does not fit on l4: .* 1\. Fewer rows: 44\.1M"):
        made(rented, 10**9)
    made(with_memory(rented, 1e12), 10**9)


def test_bytes_are_rows_of_the_worker(rented: Hardware) -> None:
    (line,) = said(made(rented, "64MB"))
    assert line == "cache of deep, wide: 177k rows on l4 take 48.2 MB"
