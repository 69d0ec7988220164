"""The system prompt that a run takes from a ConfigMap: awaited, kept for its Jobs, read anew."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import FakeClock
from support.context import context_of
from support.memory_cluster import MemoryCluster
from support.stored_run import StoredRun
from support.world import manifest
from tare.api.dataset import Dataset
from tare.api.endpoint import Endpoint
from tare.api.names import ENV_ORDER
from tare.api.reasons import Reason
from tare.decide.acceptance import Accepted, accept
from tare.decide.actions import CreateJob, StartOp
from tare.decide.children import TrialKey
from tare.decide.facts import Op, OpKind
from tare.endpoint.errors import TargetError
from tare.kube.port import CONFIG_MAP, JOB, RUN
from tare.manifests.metadata import Owner
from tare.measure.wire import decode
from tare.net.allowlist import AllowList
from tare.plan.order import WorkOrder
from tare.runtime.book import AttemptBook
from tare.runtime.children import Children
from tare.runtime.effects import Effects
from tare.runtime.operations import Operations
from tare.runtime.target import TargetService

KEY = TrialKey(0, 0, 1)
OWNER = Owner(name="run", namespace="bench", uid="run-uid")
FROM_MAP = {"systemPromptFrom": {"configMapKeyRef": {"name": "prompts", "key": "brief"}}}
UNREACHABLE = {"url": "http://127.0.0.1:9", "model": "m", "readyTimeoutSeconds": 1}


def dataset(**prefix: Any) -> Dataset:
    return Dataset.model_validate({"prefixPrompts": prefix})


async def store(cluster: MemoryCluster, text: str) -> None:
    body = {"metadata": {"name": "prompts"}, "data": {"brief": text}}
    await cluster.create(CONFIG_MAP, "bench", body)


async def test_it_is_read_once_for_all_jobs_of_a_trial() -> None:
    cluster = MemoryCluster()
    await store(cluster, "Be brief.")
    target = TargetService(context_of(cluster, FakeClock()), OWNER)
    assert await target.system_prompt(dataset(**FROM_MAP)) == "Be brief."
    await cluster.delete(CONFIG_MAP, "bench", "prompts")
    assert await target.system_prompt(dataset(**FROM_MAP)) == "Be brief."


async def test_one_that_is_not_there_is_named() -> None:
    target = TargetService(context_of(MemoryCluster(), FakeClock()), OWNER)
    with pytest.raises(TargetError, match="bench/prompts does not exist"):
        await target.system_prompt(dataset(**FROM_MAP))


@pytest.mark.parametrize("prefix", [{}, {"systemPrompt": "Be brief."}])
async def test_without_a_source_nothing_is_read(prefix: dict[str, Any]) -> None:
    target = TargetService(context_of(MemoryCluster(), FakeClock()), OWNER)
    assert await target.system_prompt(dataset(**prefix)) is None


async def test_the_preflight_waits_for_it_and_says_so() -> None:
    told: list[str] = []
    target = TargetService(context_of(MemoryCluster(), FakeClock()), OWNER)
    report = await target.preflight(
        Endpoint.model_validate(UNREACHABLE), dataset(**FROM_MAP), told.append
    )
    assert (report.ok, report.reason) == (False, Reason.CONFIG_MAP_MISSING)
    assert "ConfigMap bench/prompts does not exist (waited" in report.message
    assert told


async def test_the_preflight_of_the_next_trial_reads_it_anew() -> None:
    cluster = MemoryCluster()
    await store(cluster, "Be brief.")
    target = TargetService(context_of(cluster, FakeClock()), OWNER)
    await target.system_prompt(dataset(**FROM_MAP))
    await cluster.delete(CONFIG_MAP, "bench", "prompts")
    report = await target.preflight(
        Endpoint.model_validate(UNREACHABLE), dataset(**FROM_MAP), lambda _: None
    )
    assert report.reason is Reason.CONFIG_MAP_MISSING


async def test_a_job_whose_prompt_is_missing_is_refused_until_a_preflight_found_it() -> None:
    document = manifest(endpoint=UNREACHABLE, dataset={"prefixPrompts": FROM_MAP})
    accepted = accept(document, allow_targets=AllowList.everything())
    assert isinstance(accepted, Accepted), accepted
    cluster = StoredRun(document)
    context = context_of(cluster, FakeClock())
    operations = Operations(
        context, OWNER, accepted, AttemptBook(context.clock, lambda: None), lambda: None
    )
    effects = Effects(context, OWNER, accepted, Children(), operations)
    stored = await cluster.get(RUN, "bench", "run")

    await effects.perform(CreateJob(KEY), stored)
    assert "bench/prompts does not exist" in effects.jobs_refused[KEY]

    await store(cluster, "Be brief.")
    await effects.perform(StartOp(Op(OpKind.PREFLIGHT, KEY)), stored)
    assert effects.jobs_refused == {}
    operations.cancel()

    await effects.perform(CreateJob(KEY), stored)
    (job,) = await cluster.list(JOB, "bench")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    order = next(each["value"] for each in container["env"] if each["name"] == ENV_ORDER)
    assert decode(WorkOrder, order).dataset.system_prompt == "Be brief."
