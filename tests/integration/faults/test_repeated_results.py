"""A worker says its result again and again until it is stored: by hand, against the real inbox.

The repetition differs from the result here, which no worker's would: so it would be noticed.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tare.api import names
from tare.kube.port import SECRET
from tare.manifests.metadata import Owner
from tare.manifests.secret import TOKEN_KEY, token_secret_name
from tare.measure.messages import Identity, PhaseResult, ResultReply, WorkerResult
from tare.measure.wire import decode, encode

if TYPE_CHECKING:
    from support.scene import Scene

INDEX = "batch.kubernetes.io/job-completion-index"
OTHER = PhaseResult(
    name="profiling",
    kind="profiling",
    planned_seconds=None,
    seconds=1.0,
    drain_seconds=0.0,
    counts={"issued": 999, "ok": 999},
)


async def other_result(scene: Scene) -> WorkerResult:
    """Make up a result of one of the run's workers."""
    pod = (await scene.workers())[0]["metadata"]
    labels = pod["labels"]
    worker = Identity(
        run_uid=labels[names.LABEL_RUN_UID],
        cell=int(labels[names.LABEL_CELL]),
        trial=int(labels[names.LABEL_TRIAL]),
        attempt=int(labels[names.LABEL_ATTEMPT]),
        index=int(labels[INDEX]),
        pod_uid=pod["uid"],
        pod_name=pod["name"],
    )
    return WorkerResult(worker=worker, phases=(OTHER,), complete=True)


async def token_of(scene: Scene) -> str:
    """Read the token that the run's workers were given."""
    run = (await scene.bed.run(scene.namespace))["metadata"]
    owner = Owner(name=run["name"], namespace=run["namespace"], uid=run["uid"])
    secret = await scene.bed.cluster.get(SECRET, scene.namespace, token_secret_name(owner))
    return base64.b64decode(secret["data"][TOKEN_KEY]).decode()


async def post(scene: Scene, result: WorkerResult, token: str, **options: Any) -> tuple[int, bytes]:
    url = f"{scene.bed.operator.url}/v1/result"
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=encode(result), headers=headers, **options) as response,
    ):
        return response.status, await response.read()


@pytest.fixture
async def unstored(scene: Scene) -> WorkerResult:
    """All workers have handed in their results, and none can be stored."""
    scene.own.devcluster.faults.fail("POST", "/configmaps", times=1000)
    await scene.submit()
    await scene.bed.until(scene.namespace, lambda s: "verdict" in s.get("current", {}))
    return await other_result(scene)


async def test_a_result_that_is_posted_twice_counts_once(
    scene: Scene, unstored: WorkerResult
) -> None:
    token = await token_of(scene)
    with pytest.raises(asyncio.TimeoutError):
        # Nobody is told "stored" before it is so.
        await post(scene, unstored, token, timeout=aiohttp.ClientTimeout(total=0.2))
    answer = asyncio.create_task(post(scene, unstored, token))
    scene.own.devcluster.faults.clear()
    status, body = await answer
    assert (status, decode(ResultReply, body)) == (200, ResultReply(stored=True))
    await scene.ends_well()
    status, _ = await post(scene, unstored, token)
    assert status in (410, 503), "the attempt is over, or the run is"
    await scene.ends_well()


async def test_a_result_of_somebody_else_is_refused(scene: Scene, unstored: WorkerResult) -> None:
    token = await token_of(scene)
    stranger = replace(unstored, worker=replace(unstored.worker, pod_uid="another"))
    assert (await post(scene, stranger, token))[0] == 409
    assert (await post(scene, unstored, token[::-1]))[0] == 401
    scene.own.devcluster.faults.clear()
    await scene.ends_well()
