import os
import sys

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, strategies as st

from heterps.errors import ClusterError
from heterps.runtime.cluster.core_share import allot, blas_libraries, thread_environment
from heterps.runtime.preload import prepare_process

pools = st.lists(st.sampled_from(["server", "io", "compute", "gpu"]), min_size=1, max_size=12)


@given(pools, st.integers(1, 64))
def test_cores_are_used_up_and_not_exceeded(workers: list[str], cores: int) -> None:
    shares = allot(workers, cores)
    used = [share.tasks * share.blas for share in shares]
    assert len(shares) == len(workers)
    assert sum(used) == max(cores, len(workers))
    assert max(used) - min(used) <= 1
    assert all(share.tasks == 1 for pool, share in zip(workers, shares, strict=True) if pool in ("compute", "gpu"))
    assert all(share.blas == 1 for pool, share in zip(workers, shares, strict=True) if pool in ("io", "server"))


def test_no_cores_is_an_error() -> None:
    with pytest.raises(ClusterError, match="0 cores"):
        allot(["io"], 0)


def test_the_environment_names_every_library() -> None:
    assert thread_environment(2)["OMP_NUM_THREADS"] == thread_environment(2)["OPENBLAS_NUM_THREADS"] == "2"


@pytest.mark.parametrize(("value", "threads"), [("1", 1), ("", 1), ("0", 1), ("2", 2)])
def test_the_preload_sets_threads_and_switch_interval(monkeypatch, value: str, threads: int) -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", value)
    interval = sys.getswitchinterval()
    with threadpoolctl.threadpool_limits(1):  # puts back what the preload changes
        prepare_process()
        assert {n for _, n in blas_libraries()} == {threads}
        assert sys.getswitchinterval() == pytest.approx(5e-4)
    sys.setswitchinterval(interval)
