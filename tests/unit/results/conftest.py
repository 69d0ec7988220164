from __future__ import annotations

import pytest

from support.memory_cluster import MemoryCluster
from tare.results.store import ResultStore


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def store(cluster: MemoryCluster) -> ResultStore:
    return ResultStore(cluster)
