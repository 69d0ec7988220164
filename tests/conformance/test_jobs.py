"""Indexed Jobs: what they report while they run, when they fail, and when they are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clusters import IMAGE, collection, eventually

if TYPE_CHECKING:
    from support.clusters import Api

SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def jobs(namespace: str) -> str:
    return collection("batch", "jobs", namespace)


@pytest.fixture
def pods(namespace: str) -> str:
    return collection("", "pods", namespace)


def job(script: str, *, completions: int = 2, **spec: Any) -> Any:
    """A Job as Tare's operator creates them."""
    return {
        "metadata": {"name": "j"},
        "spec": {
            "completionMode": "Indexed",
            "completions": completions,
            "parallelism": completions,
            "backoffLimitPerIndex": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 5,
                    "containers": [
                        {
                            "name": "main",
                            "image": IMAGE,
                            "command": ["python3", "-c", f"import os, sys\n{script}"],
                        }
                    ],
                }
            },
            **spec,
        },
    }


def conditions(document: Any) -> dict[str, Any]:
    found = document.get("status", {}).get("conditions") or ()
    return {item["type"]: item for item in found if item["status"] == "True"}


def condition_order(events: list[Any]) -> list[str]:
    """The types of conditions in the order in which a watcher saw them first."""
    seen: dict[str, None] = {}
    for event in events:
        seen.update(dict.fromkeys(conditions(event["object"])))
    return list(seen)


async def pods_of(api: Api, pods: str) -> list[Any]:
    answer = await api.get(pods, labelSelector="batch.kubernetes.io/job-name=j")
    return list(answer.body["items"])


async def running(api: Api, pods: str, count: int) -> list[Any]:
    """Wait until `count` pods of the Job run."""
    found: list[Any] = []

    async def all_run() -> bool:
        nonlocal found
        found = [pod for pod in await pods_of(api, pods) if pod["status"]["phase"] == "Running"]
        return len(found) == count

    await eventually(all_run)
    return found


async def deletions(api: Api, path: str, version: str, count: int) -> list[int]:
    """Wait for so many deletions in a collection; return their places in the store's history."""
    found: list[int] = []
    async for event in api.watch(path, resourceVersion=version, timeoutSeconds=60):
        if event["type"] == "DELETED":
            found.append(int(event["object"]["metadata"]["resourceVersion"]))
        if len(found) == count:
            break
    return found


async def test_the_pods_of_an_indexed_job_know_their_index(api: Api, jobs: str, pods: str) -> None:
    created = await api.must_create(jobs, job("print(os.environ['JOB_COMPLETION_INDEX'])"))

    done = await api.until(f"{jobs}/j", lambda document: "Complete" in conditions(document))

    assert done["status"]["completedIndexes"] == "0,1"
    assert done["status"]["succeeded"] == 2
    assert done["status"]["completionTime"]
    found = await pods_of(api, pods)
    assert len(found) == 2
    for pod in found:
        metadata = pod["metadata"]
        index = metadata["labels"]["batch.kubernetes.io/job-completion-index"]
        assert metadata["name"].startswith(f"j-{index}-")
        assert len(metadata["name"]) == len(f"j-{index}-") + 5
        assert metadata["labels"]["job-name"] == "j"
        assert metadata["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
        assert pod["spec"]["hostname"] == f"j-{index}"
        log = await api.get(f"{pods}/{metadata['name']}/log")
        assert log.body == f"{index}\n"


async def test_success_is_announced_before_it_is_complete(api: Api, jobs: str) -> None:
    created = await api.must_create(jobs, job("pass"))
    version = created["metadata"]["resourceVersion"]

    events = []
    async for event in api.watch(jobs, resourceVersion=version, timeoutSeconds=60):
        events.append(event)
        if "Complete" in conditions(event["object"]):
            break

    assert condition_order(events) == ["SuccessCriteriaMet", "Complete"]
    last = conditions(events[-1]["object"])["SuccessCriteriaMet"]
    assert last["reason"] == "CompletionsReached"


async def test_one_failed_index_leaves_the_others_alone(api: Api, jobs: str) -> None:
    created = await api.must_create(
        jobs, job("sys.exit(int(os.environ['JOB_COMPLETION_INDEX']))", completions=3)
    )
    version = created["metadata"]["resourceVersion"]

    events = []
    async for event in api.watch(jobs, resourceVersion=version, timeoutSeconds=60):
        events.append(event)
        if "Failed" in conditions(event["object"]):
            break

    status = events[-1]["object"]["status"]
    assert (status["failedIndexes"], status["completedIndexes"]) == ("1,2", "0")
    assert (status["failed"], status["succeeded"]) == (2, 1)
    assert condition_order(events) == ["FailureTarget", "Failed"]
    failed = conditions(events[-1]["object"])["Failed"]
    assert (failed["reason"], failed["message"]) == ("FailedIndexes", "Job has failed indexes")


async def test_a_pod_that_somebody_deletes_fails_its_index(api: Api, jobs: str, pods: str) -> None:
    await api.must_create(jobs, job(SLEEP))
    first = next(
        pod for pod in await running(api, pods, 2) if pod["metadata"]["name"].startswith("j-0-")
    )

    await api.delete(f"{pods}/{first['metadata']['name']}")

    found = await api.until(
        f"{jobs}/j", lambda document: document["status"].get("failedIndexes") == "0"
    )
    assert not conditions(found)
    await api.until_gone(f"{pods}/{first['metadata']['name']}")
    left = await pods_of(api, pods)
    assert [pod["metadata"]["name"][:4] for pod in left] == ["j-1-"]
    await api.delete(f"{jobs}/j", propagationPolicy="Background")


async def test_a_suspended_job_has_no_pods_until_it_is_resumed(
    api: Api, jobs: str, pods: str
) -> None:
    await api.must_create(jobs, job(SLEEP, suspend=True))
    await api.until(f"{jobs}/j", lambda document: "Suspended" in conditions(document))
    assert await pods_of(api, pods) == []

    await api.patch(f"{jobs}/j", {"spec": {"suspend": False}})
    await running(api, pods, 2)
    await api.patch(f"{jobs}/j", {"spec": {"suspend": True}})

    async def none_left() -> bool:
        return not await pods_of(api, pods)

    await eventually(none_left)
    suspended = await api.until(f"{jobs}/j", lambda document: "Suspended" in conditions(document))
    assert not suspended["status"].get("failedIndexes")
    await api.delete(f"{jobs}/j", propagationPolicy="Background")


async def test_a_job_past_its_deadline_fails_with_its_pods(api: Api, jobs: str, pods: str) -> None:
    await api.must_create(jobs, job(SLEEP, activeDeadlineSeconds=1))

    failed = await api.until(f"{jobs}/j", lambda document: "Failed" in conditions(document))

    assert conditions(failed)["FailureTarget"]["reason"] == "DeadlineExceeded"
    assert conditions(failed)["Failed"]["reason"] == "DeadlineExceeded"

    async def none_left() -> bool:
        return not await pods_of(api, pods)

    await eventually(none_left)


async def test_a_finished_job_is_deleted_when_its_time_is_over(api: Api, jobs: str) -> None:
    await api.must_create(jobs, job("pass", ttlSecondsAfterFinished=1))

    await api.until_gone(f"{jobs}/j")


async def test_the_pods_of_a_job_outlive_a_background_delete(
    api: Api, jobs: str, pods: str
) -> None:
    created = await api.must_create(jobs, job(SLEEP))
    version = created["metadata"]["resourceVersion"]
    await running(api, pods, 2)

    await api.delete(f"{jobs}/j", propagationPolicy="Background")

    [job_gone] = await deletions(api, jobs, version, 1)
    assert all(pod_gone > job_gone for pod_gone in await deletions(api, pods, version, 2))


async def test_a_job_that_is_deleted_without_a_policy_orphans_its_pods(
    api: Api, jobs: str, pods: str
) -> None:
    await api.must_create(jobs, job(SLEEP, completions=1))
    [pod] = await running(api, pods, 1)

    await api.delete(f"{jobs}/j")
    await api.until_gone(f"{jobs}/j")

    path = f"{pods}/{pod['metadata']['name']}"
    left = await api.until(path, lambda document: "ownerReferences" not in document["metadata"])
    assert "deletionTimestamp" not in left["metadata"]
    await api.delete(path, gracePeriodSeconds=0)


async def test_a_foreground_delete_waits_for_the_pods(api: Api, jobs: str, pods: str) -> None:
    await api.must_create(jobs, job(SLEEP, completions=1))
    await running(api, pods, 1)

    waiting = await api.delete(f"{jobs}/j", propagationPolicy="Foreground")
    await api.until_gone(f"{jobs}/j")

    assert waiting.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert await pods_of(api, pods) == []


async def test_a_job_must_not_restart_its_pods_always(api: Api, jobs: str) -> None:
    document = job("pass")
    del document["spec"]["template"]["spec"]["restartPolicy"]

    answer = await api.create(jobs, document)

    assert answer.status == 422
    assert answer.message == (
        'Job.batch "j" is invalid: spec.template.spec.restartPolicy: Required value: valid '
        'values: "OnFailure", "Never"'
    )


async def test_a_jobs_template_cannot_be_changed(api: Api, jobs: str) -> None:
    await api.must_create(jobs, job(SLEEP, suspend=True))
    operations = [{"op": "remove", "path": "/spec/template/spec/containers/0/command"}]

    answer = await api.patch(f"{jobs}/j", operations, "json-patch+json")

    assert answer.status == 422
    assert answer.message.endswith("field is immutable")
