"""A cluster and an operator that tests may break: not those of the session, which others use.

On a real cluster those tests run that use the session's; the others would only repeat what they
did without it.
"""

# ruff: noqa: PLC0415 - a test that needs no cluster does not wait for a Kubernetes client

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cluster import REAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from support.embedded import Embedded
    from support.scene import Scene


HERE = Path(__file__).parent
EMBEDDED = {"own", "devcluster"}
"""Fixtures that only the embedded cluster has."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_left_out(item: pytest.Item) -> bool:
        used = set(getattr(item, "fixturenames", ()))
        return HERE in item.path.parents and ("kubeconfig" not in used or bool(used & EMBEDDED))

    if REAL and (left_out := [item for item in items if is_left_out(item)]):
        items[:] = [item for item in items if not is_left_out(item)]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A cluster whose operator opens its watches anew every two seconds."""
    from support.embedded import embedded

    with embedded(tmp_path_factory.mktemp("own"), TARE_WATCH_TIMEOUT_SECONDS="2") as made:
        yield made


@pytest.fixture
async def scene(own: Embedded) -> AsyncIterator[Scene]:
    """Two servers; the test creates the run."""
    from support.bed import Bed
    from support.scene import SERVERS, Scene

    async with Bed.open(own.kubeconfig, own.operator) as bed:
        namespace = await bed.namespace()
        servers = await bed.servers(namespace, *SERVERS)
        scene = Scene(bed=bed, own=own, namespace=namespace, servers=servers)
        seen = len(own.operator.log.read_text())
        yield scene
        await scene.heal()
        said = own.operator.log.read_text()[seen:].splitlines()
        ours = [line for line in said if '"ERROR"' in line and '"logger": "tare.' in line]
        assert not ours, "the operator met what it did not expect"
