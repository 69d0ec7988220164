"""What a driver does when others write to its run, and when a write of its own is refused.

The life of a run is decided in `decide` and tested there; how it goes on a cluster is tested on the
embedded one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.context import context_of
from support.stored_run import StoredRun
from support.world import REPLICAS, manifest
from tare.api.names import FINALIZER_PROFILER
from tare.api.reasons import Reason
from tare.decide.actions import CreateJob, Decision
from tare.decide.attempt import Attempt, ProfilerMark, ProfilerState, ResetMark, ResetState
from tare.decide.children import TrialKey
from tare.kube.errors import Terminating, Unavailable
from tare.kube.port import RUN
from tare.runtime.driver import PROGRESS, Driver
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from tare.kube.port import Document, Kind


class Overtaken(StoredRun):
    """A cluster where a user cancels the run, and the watch tells so before our write returns."""

    driver: Driver | None = None

    @override
    async def patch(self, kind: Kind, namespace: str, name: str, body: Document, **_: Any) -> Any:
        answer = await super().patch(kind, namespace, name, body, **_)
        if self.driver is not None:
            self.change(lambda document: document["spec"].update(cancel=True))
            self.driver.observe(await self.get(RUN, namespace, name))
            self.driver = None
        return answer


class Closed(StoredRun):
    """A cluster where the run's namespace is being deleted."""

    @override
    async def create(self, *_: Any) -> Document:
        raise Terminating("unable to create new content in namespace bench")


def stored(**status: Any) -> Document:
    document = manifest(sweep=None)
    document["metadata"]["finalizers"] = [FINALIZER_PROFILER]
    if status:
        document["status"] = status
    return document


def driver_of(cluster: StoredRun) -> Driver:
    return Driver(context_of(cluster, FakeClock()), cluster.document)


async def passes(driver: Driver, number: int = 1) -> None:
    """Begin, and make some passes."""
    await driver._until_available(driver._begin)
    for _ in range(number):
        await driver._until_available(driver._pass)


async def test_a_driver_signs_the_run_before_anything_else() -> None:
    cluster = StoredRun(stored(operator="tare-9"))
    await passes(driver_of(cluster))
    assert cluster.patches[0]["status"] == {"operator": "tare-0"}
    assert all(set(patch) == {"metadata", "status"} for patch in cluster.patches)


async def test_a_watch_event_that_overtakes_the_answer_to_our_write_is_not_lost() -> None:
    cluster = Overtaken(stored())
    driver = driver_of(cluster)
    await driver._begin()
    cluster.driver = driver
    await driver._pass()
    assert driver.document["spec"]["cancel"] is True


async def test_an_older_watch_event_changes_nothing() -> None:
    cluster = StoredRun(stored())
    driver = driver_of(cluster)
    await passes(driver)
    newest = driver.document
    driver.observe({**stored(), "spec": {}})
    assert driver.document is newest


async def test_a_driver_ends_without_a_word_when_another_operator_has_signed() -> None:
    cluster = StoredRun(stored())
    driver = driver_of(cluster)
    await passes(driver)
    cluster.change(lambda document: document["status"].update(operator="tare-9"))
    driver.observe(await cluster.get(RUN, "bench", "run"))
    cluster.change(lambda document: document["spec"].update(suspend=True))
    driver.observe(await cluster.get(RUN, "bench", "run"))
    written = len(cluster.patches)
    driver._begin = not_again  # type: ignore[method-assign]  # it would take the run over
    await driver.run()
    assert len(cluster.patches) == written
    assert cluster.document["status"]["operator"] == "tare-9"


async def not_again() -> None:
    return


@pytest.mark.parametrize("refusals", [0, 1, 3])
async def test_a_restart_while_a_profiler_starts_is_remembered_until_it_is_written_down(
    refusals: int,
) -> None:
    attempt = Attempt(
        key=TrialKey(0, 0, 1),
        started=1.0,
        spawned=1.0,
        replicas=REPLICAS,
        reset=ResetMark(state=ResetState.CONFIRMED),
        profiler=ProfilerMark(state=ProfilerState.STARTING, phase=1, last=1),
    )
    cluster = StoredRun(stored(current=attempt.to_json(), startTime="2026-01-01T00:00:00Z"))
    driver = driver_of(cluster)
    await driver._begin()
    cluster.refusals = [Unavailable("the API server is away")] * refusals
    await driver._until_available(driver._pass)
    current = cluster.document["status"]["current"]
    assert current["verdict"]["reason"] == Reason.RESUMED
    assert current["profiler"]["state"] == "Starting"


async def test_a_run_whose_namespace_is_being_deleted_ends_before_it_is_deleted_itself() -> None:
    """With the namespace go our rights in it, perhaps before the run: then it would stay there."""
    attempt = Attempt(
        key=TrialKey(0, 0, 1),
        started=1.0,
        spawned=1.0,
        replicas=REPLICAS,
        reset=ResetMark(state=ResetState.CONFIRMED),
    )
    cluster = Closed(stored(current=attempt.to_json(), startTime="2026-01-01T00:00:00Z"))
    await driver_of(cluster).run()
    assert cluster.document["status"]["phase"] == "Cancelled"
    assert cluster.document["metadata"]["finalizers"] == []


async def test_asking_for_a_job_that_was_refused_is_no_progress_so_that_the_loop_pauses() -> None:
    driver = driver_of(StoredRun(stored()))
    await driver._begin()
    ask, go_on = CreateJob(TrialKey(0, 0, 1)), CreateJob(TrialKey(1, 0, 1))
    driver._effects.jobs_refused[ask.key] = "exceeded quota: jobs"
    assert not driver._achieved(Decision(status={}, actions=(ask,)))
    assert not driver._achieved(Decision(status={}))
    assert driver._achieved(Decision(status={}, actions=(ask, go_on)))


async def test_other_words_for_the_same_condition_wait_for_a_few_seconds() -> None:
    cluster = StoredRun(stored())
    clock = FakeClock()
    driver = Driver(context_of(cluster, clock), cluster.document)
    await passes(driver)
    status = driver.document["status"]
    conditions = [{**c, "message": "7 of 8 workers registered"} for c in status["conditions"]]
    written = len(cluster.patches)
    await driver._write({**status, "conditions": conditions})
    assert len(cluster.patches) == written
    clock.advance(PROGRESS)
    await driver._write({**status, "conditions": conditions})
    assert cluster.document["status"]["conditions"] == conditions


async def test_the_start_skew_alone_costs_no_write_and_goes_with_the_next_one() -> None:
    attempt = Attempt(key=TrialKey(0, 0, 1), started=1.0, spawned=1.0)
    cluster = StoredRun(stored(current=attempt.to_json(), startTime="2026-01-01T00:00:00Z"))
    clock = FakeClock()
    driver = Driver(context_of(cluster, clock), cluster.document)
    await passes(driver)
    status, written = driver.document["status"], len(cluster.patches)
    current = {**status["current"], "startSkew": {"warmup": 0.001}}
    await driver._write({**status, "current": current})
    assert len(cluster.patches) == written
    assert await driver._write({**status, "current": {**current, "faults": 1}})
    assert cluster.document["status"]["current"]["startSkew"] == {"warmup": 0.001}


async def test_another_reason_for_the_same_condition_is_written_at_once() -> None:
    cluster = StoredRun(stored())
    driver = driver_of(cluster)
    await passes(driver)
    status = driver.document["status"]
    conditions = [{**c, "reason": "ImagePullFailed"} for c in status["conditions"]]
    assert await driver._write({**status, "conditions": conditions})
    assert cluster.document["status"]["conditions"] == conditions


async def test_a_refused_run_is_finished_and_told_without_a_second_look() -> None:
    document = stored()
    document["spec"]["endpoint"] = {"url": "http://metadata.internal", "model": "m"}
    cluster = StoredRun(document)
    await driver_of(cluster).run()
    assert cluster.document["status"]["phase"] == "Failed"
    assert cluster.document["status"]["reason"] == Reason.INVALID_SPEC
    assert [verb for verb, _ in cluster.calls].count("create") == 2
