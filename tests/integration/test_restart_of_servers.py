"""Operator and model server die in one trial: the server's restart is found by the next operator.

The cell's numbers come from a server that lost its cache. What the first operator knew of it before
the trial was in the run's status, so the second one sees the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from support.bed import eventually, manifest, told
from support.processes import kill, server_at
from support.scene import SERVERS
from tare.kube.port import POD, RUN
from tare.measure.cache import CacheWord

if TYPE_CHECKING:
    from support.bed import Server
    from support.scene import Scene
    from tare.kube.port import Document

ISOLATED = "warmup_isolation_first_turn"
"""Profiling is planned to find nothing cached: what a server that restarted finds, too."""
LONG = {"name": "profiling", "kind": "profiling", "type": "concurrency", "concurrency": 2}


def run_of(**endpoint: Any) -> Document:
    """A profiling phase that outlasts a restart of the operator."""
    phases = [
        {**LONG, "name": "warmup", "kind": "warmup", "requests": 4},
        {**LONG, "durationSeconds": 12},
    ]
    document = manifest(
        dataset={"prompts": {"isl": 96, "osl": 8, "cacheBust": {"target": ISOLATED}}, "seed": 5},
        phases=phases,
    )
    document["spec"]["endpoint"] |= {"resetKvCache": True, **endpoint}
    if "urls" in endpoint:
        del document["spec"]["endpoint"]["service"]
    return document


async def in_profiling(scene: Scene) -> None:
    await scene.until_all_run(1)
    await scene.until_total("requests", 12)


async def restart_server(scene: Scene, server: Server) -> None:
    """Kill a model server and wait until its container was started again and answers."""
    kill(server_at(urlsplit(server.url).hostname or ""))

    async def again() -> bool:
        pod = await scene.bed.cluster.get(POD, scene.namespace, server.pod)
        (container,) = pod["status"]["containerStatuses"]
        ready = {c["type"]: c["status"] for c in pod["status"]["conditions"]}["Ready"]
        return (container["restartCount"], ready) == (1, "True")

    await eventually(again, 30, lambda: f"{server.pod} did not come back")


async def ended(scene: Scene) -> tuple[str, str, dict[str, Any]]:
    """Verdict and reason of the only trial's cache, and the condition about it."""
    status = await scene.bed.finished(scene.namespace, seconds=90)
    (record,) = (await scene.trials()).values()
    assert record.attempt == 1, "it is the trial that the first operator began"
    assert record.cache is not None
    return record.cache.verdict, record.cache.reason, told(status, "CacheAsPlanned")


@pytest.mark.parametrize("by", ["service", "urls"])
async def test_a_server_that_restarts_while_the_operator_is_down_is_found_by_the_next_one(
    scene: Scene, by: str
) -> None:
    """Of a Service's pod by its restart count too; of a URL by its process's start alone."""
    urls = {"urls": [server.url for server in scene.servers]} if by == "urls" else {}
    await scene.bed.submit(scene.namespace, run_of(**urls))
    await in_profiling(scene)
    scene.bed.operator.kill()
    await restart_server(scene, scene.servers[1])
    await scene.restart()
    verdict, reason, condition = await ended(scene)
    assert (verdict, reason) == (CacheWord.UNVERIFIED, "ServerRestarted")
    assert (condition["status"], condition["reason"]) == ("Unknown", "ServerRestarted")
    server = scene.servers[1]
    assert (server.url if by == "urls" else server.pod) in condition["message"]
    (cell,) = (await scene.bed.status(scene.namespace))["cells"]
    assert cell["cache"] == "ServerRestarted"


async def test_servers_that_stay_up_while_the_operator_restarts_are_not_accused(
    scene: Scene,
) -> None:
    await scene.bed.submit(scene.namespace, run_of())
    await in_profiling(scene)
    current = (await scene.bed.status(scene.namespace))["current"]
    assert {row["name"] for row in current["servers"]} == {s.pod for s in scene.servers}
    assert all(row["before"]["restarts"] == 0 for row in current["servers"])
    scene.bed.operator.kill()
    await scene.restart()
    verdict, reason, condition = await ended(scene)
    assert (verdict, reason) == (CacheWord.AS_PLANNED, "AsPlanned"), condition
    status = await scene.bed.status(scene.namespace)
    assert "current" not in status, "what only a restarted operator needs is gone at the end"


async def test_counters_of_the_servers_still_speak_for_a_trial_that_two_operators_led(
    scene: Scene,
) -> None:
    """Their answers do not tell cached tokens; what was counted before the trial is in status."""
    quiet = await scene.bed.servers(
        scene.namespace, *SERVERS, "--no-prompt-tokens-details", name="quiet"
    )
    scene.servers = quiet
    await scene.bed.submit(scene.namespace, run_of(service={"name": "quiet", "port": "http"}))
    await in_profiling(scene)
    scene.bed.operator.kill()
    await scene.restart()
    verdict, reason, condition = await ended(scene)
    assert (verdict, reason) == (CacheWord.AS_PLANNED, "AsPlanned"), condition
    (record,) = (await scene.trials()).values()
    assert record.cache.source == "counters"


async def test_a_run_that_an_older_operator_began_does_not_pass(scene: Scene) -> None:
    """It wrote nothing of the servers down: a restart of one would go unnoticed."""
    await scene.bed.submit(scene.namespace, run_of())
    await in_profiling(scene)
    scene.bed.operator.kill()
    await forget_servers(scene)
    await scene.restart()
    verdict, reason, condition = await ended(scene)
    assert (verdict, reason) == (CacheWord.UNVERIFIED, "NotDecidable")
    assert condition["message"].startswith("cell 0: whether qwen-0, qwen-1 restarted during")


async def forget_servers(scene: Scene) -> None:
    """Leave the status as an operator that did not know the field would have written it."""
    body = {"status": {"current": {"servers": None, "startSkew": None}}}
    await scene.bed.cluster.patch(RUN, scene.namespace, "run", body, subresource="status")
