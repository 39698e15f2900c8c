from collections.abc import Iterator

import pytest
from distributed import Client

from heterps.runtime.cluster.in_process import local_cluster


@pytest.fixture(scope="module")
def local() -> Iterator[Client]:
    """An in-process cluster; no test may change it."""
    with local_cluster({"server": 1, "io": 2, "compute": 1}) as client:
        yield client
