"""The bed of the integration tests: a cluster and one operator for the session.

By default the embedded cluster; with `TARE_TEST_CLUSTER=1` the one that `KUBECONFIG` names, on
which the images must have been loaded and whose pods must reach this machine at
`TARE_TEST_ADDRESS`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.bed import SERVER_IMAGE, WORKER_IMAGE, Bed, OperatorProcess, install_crd

from tare.devcluster.cluster import DevCluster
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

COMMAND = (sys.executable, "-m", "tare")
REAL = bool(os.environ.get("TARE_TEST_CLUSTER"))


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of the cluster under test."""
    if REAL:
        return Path(os.environ["KUBECONFIG"])
    devcluster = request.getfixturevalue("devcluster")
    path = Path(request.getfixturevalue("tmp_path_factory").mktemp("devcluster")) / "kubeconfig"
    devcluster.write_kubeconfig(path)
    return path


@pytest.fixture(scope="session")
def devcluster() -> Iterator[DevCluster]:
    """An embedded cluster that knows our images."""
    with DevCluster(images={SERVER_IMAGE: COMMAND, WORKER_IMAGE: COMMAND}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def operator(
    kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator of the session; a test that kills it starts it again."""
    process = OperatorProcess(
        kubeconfig,
        tmp_path_factory.mktemp("operator"),
        address=os.environ.get("TARE_TEST_ADDRESS", "127.0.0.1"),
        allowed_targets=["http://127.0.0.0/8", "http://10.0.0.0/8"],
    )
    yield process
    if process.alive:
        assert process.terminate() == 0


@pytest.fixture
async def bed(kubeconfig: Path, operator: OperatorProcess) -> AsyncIterator[Bed]:
    """The bed of one test."""
    await install_crd(kubeconfig)
    async with Bed.open(kubeconfig, operator) as bed:
        yield bed
