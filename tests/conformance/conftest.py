"""One cluster for the session, one namespace for each test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.clusters import Api, Kubectl, TestCluster, collection, open_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

PROBE_CRD = Path(__file__).parent / "probes.conformance.tare.dev.yaml"
DEFINITIONS = collection("apiextensions.k8s.io", "customresourcedefinitions", "")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    with open_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
async def api(cluster: TestCluster) -> AsyncIterator[Api]:
    async with Api.open(cluster.kubeconfig) as api:
        yield api


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    async with api.namespace() as name:
        yield name


@pytest.fixture
async def probes(api: Api, namespace: str) -> str:
    """The collection of the suite's own custom resource, which is defined when it is not there."""
    definition: Any = yaml.safe_load(PROBE_CRD.read_text())
    answer = await api.create(DEFINITIONS, definition)
    assert answer.status in {201, 409}, answer.body
    path = collection("conformance.tare.dev", "probes", namespace)
    await api.until(path, lambda _: True)
    return path


@pytest.fixture
def kubectl(
    cluster: TestCluster, namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    cache = tmp_path_factory.getbasetemp() / "kubectl-cache"
    return Kubectl(kubeconfig=cluster.kubeconfig, cache=cache, namespace=namespace)
