"""Fixtures of all tests on a cluster: one cluster and one operator for the session.

By default the embedded cluster; with `TARE_TEST_CLUSTER=1` the one that `KUBECONFIG` names, on
which the images must have been loaded and whose pods must reach this machine at
`TARE_TEST_ADDRESS`. Imports are in the fixtures, so that unit tests do not wait for a Kubernetes
client.
"""

# ruff: noqa: PLC0415 - said above

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from support.bed import Bed, OperatorProcess
    from tare.devcluster.cluster import DevCluster

__all__ = ["ADDRESS", "REAL"]

REAL = bool(os.environ.get("TARE_TEST_CLUSTER"))
ADDRESS = os.environ.get("TARE_TEST_ADDRESS", "127.0.0.1")
"""Address of this machine as pods see it."""


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of the cluster under test."""
    if REAL:
        return Path(os.environ["KUBECONFIG"])
    devcluster = request.getfixturevalue("devcluster")
    folder = request.getfixturevalue("tmp_path_factory").mktemp("devcluster")
    return Path(devcluster.write_kubeconfig(folder / "kubeconfig"))


@pytest.fixture(scope="session")
def devcluster() -> Iterator[DevCluster]:
    """An embedded cluster that knows our images."""
    from support.bed import SERVER_IMAGE, WORKER_IMAGE
    from tare.devcluster.cluster import DevCluster

    command = (sys.executable, "-m", "tare")
    with DevCluster(images={SERVER_IMAGE: command, WORKER_IMAGE: command}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def operator(
    kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator of the session; a test that kills it starts it again."""
    from support.bed import OperatorProcess

    process = OperatorProcess(
        kubeconfig,
        tmp_path_factory.mktemp("operator"),
        address=ADDRESS,
        allowed_targets=["http://127.0.0.0/8", "http://10.0.0.0/8"],
    )
    yield process
    if process.alive:
        assert process.terminate() == 0


@pytest.fixture
async def bed(kubeconfig: Path, operator: OperatorProcess) -> AsyncIterator[Bed]:
    """The bed of one test."""
    from support.bed import Bed, install_crd

    await install_crd(kubeconfig)
    async with Bed.open(kubeconfig, operator) as bed:
        yield bed
