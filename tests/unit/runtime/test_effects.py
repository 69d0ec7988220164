"""Actions on the Kubernetes API: repeated after an unknown outcome, they change nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support.clock import FakeClock
from support.context import context_of
from support.stored_run import StoredRun
from support.world import manifest
from tare.api.names import FINALIZER_PROFILER
from tare.decide.acceptance import Accepted, accept
from tare.decide.actions import (
    AddProfilerFinalizer,
    CreateJob,
    DeleteJob,
    Event,
    RemoveProfilerFinalizer,
    TakeBack,
)
from tare.decide.children import TrialKey
from tare.kube.errors import Forbidden, Invalid, Terminating, Unavailable
from tare.kube.port import EVENT, JOB, RUN, SECRET
from tare.manifests.metadata import Owner
from tare.manifests.secret import TOKEN_KEY, run_token, token_secret_name
from tare.net.allowlist import AllowList
from tare.runtime.book import AttemptBook
from tare.runtime.children import Children
from tare.runtime.context import Context
from tare.runtime.effects import Effects, post_events
from tare.runtime.operations import Operations

if TYPE_CHECKING:
    from tare.decide.actions import Action
    from tare.kube.port import Document

FIRST, SECOND = TrialKey(0, 0, 1), TrialKey(1, 0, 1)
OWNER = Owner(name="run", namespace="bench", uid="run-uid")


@dataclass
class Bed:
    """The effects of one run on a cluster in memory."""

    cluster: StoredRun
    context: Context
    children: Children
    operations: Operations
    effects: Effects

    async def do(self, *actions: Action) -> Document:
        """Carry the actions out one after the other."""
        document = await self.cluster.get(RUN, "bench", "run")
        for action in actions:
            document = await self.effects.perform(action, document)
        return document

    async def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in await self.cluster.list(JOB, "bench")]


@pytest.fixture
def bed() -> Bed:
    endpoint = {"url": "http://10.0.0.9:8000", "model": "m"}
    document = manifest(endpoint=endpoint, workers={"replicas": 2})
    accepted = accept(document, allow_targets=AllowList.everything())
    assert isinstance(accepted, Accepted), accepted
    cluster = StoredRun(document)
    context = context_of(cluster, FakeClock())
    book = AttemptBook(context.clock, lambda: None)
    operations = Operations(context, OWNER, accepted, book, lambda: None)
    children = Children()
    effects = Effects(context, OWNER, accepted, children, operations)
    return Bed(cluster, context, children, operations, effects)


async def test_the_first_job_brings_the_runs_secret_and_the_next_one_uses_it(bed: Bed) -> None:
    await bed.do(CreateJob(FIRST), CreateJob(SECOND))
    assert await bed.jobs() == ["run-0-0-1", "run-1-0-1"]
    secret = await bed.cluster.get(SECRET, "bench", token_secret_name(OWNER))
    token = run_token(bed.context.settings.operator_key, OWNER.uid)
    assert secret["stringData"] == {TOKEN_KEY: token}
    assert len(await bed.cluster.list(SECRET, "bench")) == 1


async def test_a_job_is_known_before_any_watch_tells_of_it(bed: Bed) -> None:
    await bed.do(CreateJob(FIRST))
    assert bed.children.jobs[FIRST].name == "run-0-0-1"


async def test_a_create_whose_answer_was_lost_finds_its_own_job(bed: Bed) -> None:
    await bed.do(CreateJob(FIRST))
    uid = bed.children.jobs[FIRST].uid
    await bed.do(CreateJob(FIRST))
    assert await bed.jobs() == ["run-0-0-1"]
    assert bed.children.jobs[FIRST].uid == uid


async def test_the_job_of_an_earlier_run_of_this_name_is_waited_for(bed: Bed) -> None:
    theirs = {"metadata": {"name": "run-0-0-1", "ownerReferences": [{"uid": "earlier"}]}}
    await bed.cluster.create(JOB, "bench", theirs)
    with pytest.raises(Unavailable, match="of an earlier run is still there"):
        await bed.do(CreateJob(FIRST))
    assert FIRST not in bed.children.jobs


@pytest.mark.parametrize("error", [Forbidden("exceeded quota: jobs"), Invalid("spec.template")])
async def test_a_refusal_is_remembered_for_its_attempt_until_a_create_succeeds(
    bed: Bed, error: Exception
) -> None:
    bed.cluster.failures = [None, error]  # type: ignore[list-item]  # each is a KubeError
    await bed.do(CreateJob(FIRST))
    assert bed.effects.jobs_refused == {FIRST: str(error)}
    await bed.do(CreateJob(SECOND))
    assert bed.effects.jobs_refused == {FIRST: str(error)}
    await bed.do(CreateJob(FIRST))
    assert bed.effects.jobs_refused == {}


async def test_an_unknown_outcome_is_the_drivers_to_repeat(bed: Bed) -> None:
    bed.cluster.failures = [Unavailable("504")]
    with pytest.raises(Unavailable):
        await bed.do(CreateJob(FIRST))
    await bed.do(CreateJob(FIRST))
    assert bed.effects.jobs_refused == {}
    assert await bed.jobs() == ["run-0-0-1"]


async def test_a_deleted_job_is_going_before_the_watch_says_so(bed: Bed) -> None:
    await bed.do(CreateJob(FIRST))
    job = bed.children.jobs[FIRST]
    await bed.do(DeleteJob(job.name, job.uid), DeleteJob(job.name, job.uid))
    assert await bed.jobs() == []
    assert bed.children.jobs[FIRST].deleting
    assert bed.effects.prestart


async def test_a_job_of_another_uid_is_not_deleted(bed: Bed) -> None:
    await bed.do(CreateJob(FIRST), DeleteJob("run-0-0-1", "another uid"))
    assert await bed.jobs() == ["run-0-0-1"]


async def test_after_a_taking_back_no_pods_are_started_ahead(bed: Bed) -> None:
    await bed.do(CreateJob(SECOND))
    job = bed.children.jobs[SECOND]
    await bed.do(TakeBack(job.name, job.uid))
    assert await bed.jobs() == []
    assert not bed.effects.prestart


async def test_our_finalizer_stands_beside_kopfs_and_goes_without_it(bed: Bed) -> None:
    bed.cluster.change(lambda run: run["metadata"].update(finalizers=["tare.dev/finalizer"]))
    added = await bed.do(AddProfilerFinalizer(), AddProfilerFinalizer())
    assert added["metadata"]["finalizers"] == ["tare.dev/finalizer", FINALIZER_PROFILER]
    removed = await bed.do(RemoveProfilerFinalizer())
    assert removed["metadata"]["finalizers"] == ["tare.dev/finalizer"]


async def test_a_finalizer_that_collides_with_kopfs_patch_is_left_to_the_next_pass(
    bed: Bed,
) -> None:
    bed.cluster.between = [lambda run: run["metadata"].update(finalizers=["tare.dev/finalizer"])]
    document = await bed.do(AddProfilerFinalizer())
    assert document["metadata"]["finalizers"] == ["tare.dev/finalizer"]
    document = await bed.do(AddProfilerFinalizer())
    assert FINALIZER_PROFILER in document["metadata"]["finalizers"]


async def test_an_event_that_cannot_be_posted_does_no_harm_to_the_next_one(bed: Bed) -> None:
    bed.cluster.failures = [Forbidden("no right to create events")]
    events = [Event(reason="CellMeasured", message=f"cell {n}") for n in range(2)]
    assert await post_events(bed.context, OWNER, events)
    posted = await bed.cluster.list(EVENT, "bench")
    assert [event["message"] for event in posted] == ["cell 1"]


async def test_an_event_that_a_namespace_on_its_way_out_refuses_says_so(bed: Bed) -> None:
    bed.cluster.failures = [Terminating("unable to create new content")]
    assert not await post_events(bed.context, OWNER, [Event(reason="R", message="m")])


async def test_a_job_that_a_namespace_on_its_way_out_refuses_is_no_failure(bed: Bed) -> None:
    bed.cluster.failures = [Terminating("unable to create new content")]
    await bed.do(CreateJob(FIRST))
    assert bed.operations.namespace_ends
    assert bed.effects.jobs_refused == {}


@pytest.mark.parametrize(("via", "prestart"), [("Service", True), ("Endpoints", False)])
def test_workers_that_go_to_the_pods_are_not_started_before_their_turn(
    via: str, prestart: bool
) -> None:
    # The pods of their own trial may be others than those of the trial before.
    endpoint = {"service": {"name": "qwen", "port": 8000}, "model": "m", "via": via}
    document = manifest(endpoint=endpoint)
    accepted = accept(document, allow_targets=AllowList())
    assert isinstance(accepted, Accepted), accepted
    context = context_of(StoredRun(document), FakeClock())
    operations = Operations(
        context, OWNER, accepted, AttemptBook(context.clock, lambda: None), lambda: None
    )
    effects = Effects(context, OWNER, accepted, Children(), operations)
    assert effects.prestart is prestart
