"""The images, from inside: what is in them, and that they start on a read-only file system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.installation import OPERATOR_IMAGE, WORKER_IMAGE, Space, namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_MB = 120
NOT_FOR_WORKERS = ("aiohttp", "click", "kopf", "kubernetes", "numpy", "pip", "pydantic", "yaml")
LOOK = """
import importlib, importlib.util, json, os, pathlib, sys
for name in {modules}:
    importlib.import_module(name)
specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
loaded = [spec for spec in specs if spec]
size = lambda folder: sum(file.lstat().st_size for file in pathlib.Path(folder).rglob("*"))
try:
    pathlib.Path("/opt/tare/try").touch()
    writable = True
except OSError:
    writable = False
print(json.dumps({{
    "there": [name for name in {absent} if importlib.util.find_spec(name)],
    "uncompiled": [spec.name for spec in loaded if spec.cached and not os.path.exists(spec.cached)],
    "loaded": len(loaded),
    "user": os.getuid(),
    "writable": writable,
    "megabytes": size("/opt/tare") / 1e6,
}}))
"""


@pytest.fixture(scope="module")
def space() -> Iterator[Space]:
    with namespace("images") as made:
        yield made


def look(space: Space, image: str, modules: list[str], absent: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        space.run_python(LOOK.format(modules=modules, absent=list(absent)), image)
    )
    return found


@pytest.fixture(scope="module")
def worker(space: Space) -> dict[str, Any]:
    return look(
        space,
        WORKER_IMAGE,
        ["tare.worker.main", "tare.sim.serve.main", "encodings.idna"],
        NOT_FOR_WORKERS,
    )


@pytest.fixture(scope="module")
def operator(space: Space) -> dict[str, Any]:
    return look(space, OPERATOR_IMAGE, ["tare.runtime.main", "tare.runtime.drain"], ("pip",))


def test_the_worker_holds_nothing_of_the_operator(worker: dict[str, Any]) -> None:
    assert worker["there"] == []


def test_the_worker_is_small(worker: dict[str, Any]) -> None:
    print(f"worker above its base: {worker['megabytes']:.0f} MB")
    assert worker["megabytes"] <= LIMIT_MB


def test_the_operator_holds_no_installer(operator: dict[str, Any]) -> None:
    print(f"operator above its base: {operator['megabytes']:.0f} MB")
    assert operator["there"] == []


@pytest.mark.parametrize("image", ["worker", "operator"])
def test_every_module_is_compiled_those_of_the_standard_library_too(
    image: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(image)
    assert found["loaded"] > 100
    assert found["uncompiled"] == []


@pytest.mark.parametrize("image", ["worker", "operator"])
def test_nobody_is_root_and_nothing_can_be_written(
    image: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(image)
    assert (found["user"], found["writable"]) == (65532, False)
