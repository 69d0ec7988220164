"""Install, measure, upgrade, remove, install again: the chart as its users use it."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from support.installation import (
    SHARED,
    WORKER_IMAGE,
    Installation,
    Space,
    condition,
    namespace,
    until,
)
from tare.api import names

if TYPE_CHECKING:
    from collections.abc import Iterator

SCREEN = 100
"""Lines of a large terminal."""
REPLICAS, TRIALS = 3, 8
LONG = {
    "sweep": None,
    "trials": None,
    "phases": [
        {
            "name": "profiling",
            "kind": "profiling",
            "type": "concurrency",
            "concurrency": 4,
            "durationSeconds": 15,
        }
    ],
}
"""A run of one cell that lasts long enough to meet it in its profiling phase."""
CONNECT = """
import json, time, urllib.error, urllib.request
deadline = time.monotonic() + 5
answer = None
while answer is None and time.monotonic() < deadline:
    try:
        request = urllib.request.Request("{url}", data=b"{{}}", method="POST")
        answer = urllib.request.urlopen(request, timeout=1).status
    except urllib.error.HTTPError as error:
        answer = error.code
    except OSError:
        time.sleep(0.1)
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Bed:
    """An installation, and a namespace with three servers in which runs are created."""

    tare: Installation
    runs: Space


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with namespace("install") as space, namespace("runs") as runs:
        watch = {"namespaces": [runs.name]} if SHARED else {}
        tare = Installation(space, {"watch": watch, "networkPolicy": {"enabled": True}})
        with tare.installed() as notes:
            assert "kubectl describe -f run.yaml" in notes
            runs.start_servers()
            yield Bed(tare, runs)


@dataclass(frozen=True)
class Finished:
    """The quickstart's end, and the pods that were seen on the way."""

    run: dict[str, Any]
    pods: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def finished(bed: Bed) -> Finished:
    bed.runs.start_run("quickstart")
    pods: dict[str, dict[str, Any]] = {}

    def ended() -> bool:
        for pod in (*bed.runs.kubectl.items("pods"), *bed.tare.space.kubectl.items("pods")):
            pods[pod["metadata"]["uid"]] = pod
        return condition(bed.runs.get("benchmarkrun", "quickstart"), "Finished") == "True"

    until(ended, 180, "the end of the quickstart")
    return Finished(bed.runs.get("benchmarkrun", "quickstart"), pods)


def test_helm_test_passes(bed: Bed) -> None:
    assert re.search(r"Phase:\s+Succeeded", bed.tare.test())


def test_the_quickstart_measures_every_cell_and_meets_its_goals(finished: Finished) -> None:
    status = finished.run["status"]
    assert [row["state"] for row in status["cells"]] == ["Measured"] * 4
    found = {kind: condition(finished.run, kind) for kind in ("Complete", "Failed", "GoalsMet")}
    assert found == {"Complete": "True", "Failed": "False", "GoalsMet": "True"}
    assert status["phase"] == "Succeeded"


def test_the_columns_tell_what_became_of_it(bed: Bed, finished: Finished) -> None:
    header, row = bed.runs.kubectl("get", "benchmarkruns").splitlines()
    assert header.split() == ["NAME", "PHASE", "CELLS", "MODEL", "BEST", "GOALS", "AGE"]
    best = finished.run["status"]["summary"]["bestCell"]
    expected = ["quickstart", "Succeeded", "4/4", "Qwen/Qwen3-8B", best, "Met"]
    assert row.split()[:6] == expected


def test_describe_tells_the_story(bed: Bed, finished: Finished) -> None:
    text = bed.runs.kubectl("describe", "benchmarkrun", finished.run["metadata"]["name"])
    events = text.partition("Events:")[2]
    assert events.count("CellMeasured") == 4
    assert "goals met" in events
    assert "nil" not in text


def test_describe_fits_on_two_screens(bed: Bed, finished: Finished) -> None:
    text = bed.runs.kubectl("describe", "benchmarkrun", finished.run["metadata"]["name"])
    assert len(text.splitlines()) <= 2 * SCREEN


def test_every_replica_was_reset_and_profiled_before_and_in_each_trial(
    bed: Bed, finished: Finished
) -> None:
    del finished
    counters = bed.runs.counters()
    assert len(counters) == REPLICAS
    for server in counters:
        assert server["resets"] >= TRIALS
        assert server["profiler_starts"] == server["profiler_stops"] == TRIALS
        assert server["profiler_running"] is False
    # 8 of the warm-up and 24 of profiling in each trial; probes come on top.
    assert sum(server["requests"] for server in counters) >= TRIALS * (8 + 24)


def test_each_trial_is_stored_and_belongs_to_the_run(bed: Bed, finished: Finished) -> None:
    uid = finished.run["metadata"]["uid"]
    stored = json.loads(
        bed.runs.kubectl(
            "get", "configmaps", f"--selector={names.LABEL_RUN_UID}={uid}", "--output=json"
        )
    )["items"]
    kinds = [each["metadata"]["labels"][names.LABEL_COMPONENT] for each in stored]
    assert (kinds.count("trial-result"), kinds.count("summary-result")) == (TRIALS, 1)
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in stored} == {uid}


def test_prometheus_would_see_the_run(bed: Bed, finished: Finished) -> None:
    assert finished.run["status"]["phase"] == "Succeeded"
    labels = f'namespace="{bed.runs.name}",run="quickstart"'
    assert f"tare_run_goals_met{{{labels}}} 1.0" in bed.tare.metrics()


def test_only_the_operator_has_an_api_token(bed: Bed, finished: Finished) -> None:
    workers = 0
    for pod in finished.pods.values():
        volumes = json.dumps(pod["spec"].get("volumes", ()))
        component = pod["metadata"]["labels"].get(names.LABEL_COMPONENT)
        workers += component == names.CONTAINER_WORKER
        assert ("serviceAccountToken" in volumes) == (component == "operator")
    assert workers == TRIALS * 2
    assert bed.tare.space.kubectl.items("pods")


def test_no_secret_value_stands_where_people_look(bed: Bed, finished: Finished) -> None:
    secrets = [*bed.runs.kubectl.items("secrets"), bed.tare.space.get(*_KEY)]
    values = {value for secret in secrets for value in secret["data"].values()}
    values |= {base64.b64decode(value).decode(errors="replace") for value in values}
    assert len(values) >= 4
    seen = "\n".join(
        [
            json.dumps(list(finished.pods.values())),
            json.dumps(bed.runs.kubectl.items("events,configmaps,benchmarkruns,jobs")),
            bed.tare.space.kubectl("logs", "deployment/tare"),
        ]
    )
    assert [value for value in values if value in seen] == []


_KEY = ("secret", "tare-operator-key")


@pytest.mark.parametrize(
    ("labels", "answer"),
    [
        pytest.param({}, None, id="a stranger's is not let through"),
        pytest.param(
            {
                names.LABEL_MANAGED_BY: names.MANAGED_BY,
                names.LABEL_COMPONENT: names.CONTAINER_WORKER,
            },
            401,
            id="one with a worker's labels is, and is refused without a token",
        ),
    ],
)
def test_a_connection_to_the_inbox(bed: Bed, labels: dict[str, str], answer: int | None) -> None:
    url = f"http://tare.{bed.tare.space.name}.svc:8080/v1/register"
    printed = bed.runs.run_python(CONNECT.format(url=url), WORKER_IMAGE, labels)
    assert json.loads(printed) == answer


def test_a_target_that_is_not_allowed_is_refused_in_one_sentence(bed: Bed) -> None:
    bed.runs.start_run("elsewhere", endpoint={"url": "http://192.0.2.1:8000", "model": "m"})
    ended = bed.runs.finish("elsewhere", 20)
    accepted = _condition(ended, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert "http://192.0.2.1:8000" in accepted["message"]
    assert "\n" not in accepted["message"]


def test_a_secret_is_read_after_the_command_that_the_message_names(bed: Bed) -> None:
    key = {"name": "qwen-key", "key": "token"}
    bed.runs.kubectl("create", "secret", "generic", "qwen-key", "--from-literal=token=s3cret")
    endpoint = {
        "service": {"name": "qwen", "port": 8000},
        "model": "Qwen/Qwen3-8B",
        "apiKeySecretRef": key,
    }
    short = {**LONG, "phases": [{**LONG["phases"][0], "durationSeconds": 1}]}  # type: ignore[index]
    bed.runs.start_run("secret-1", **short, endpoint=endpoint)
    message = _condition(bed.runs.finish("secret-1", 60), "Finished")["message"]
    (command,) = re.findall(r"kubectl (create rolebinding [^;\n]*)", message)
    bed.runs.kubectl(*command.split())
    bed.runs.start_run("secret-2", **short, endpoint=endpoint)
    assert condition(bed.runs.finish("secret-2", 60), "Complete") == "True"


def test_an_upgrade_in_the_middle_of_a_run_does_it_no_harm(bed: Bed) -> None:
    key = bed.tare.key()
    bed.runs.start_run("upgraded", **LONG)
    _until_profiling(bed.runs, "upgraded")
    bed.tare.values["podAnnotations"] = {"upgraded": "true"}
    bed.tare.install()
    assert bed.tare.key() == key
    ended = bed.runs.finish("upgraded", 90)
    assert condition(ended, "Complete") == "True", ended["status"]
    assert _profilers(bed.runs) == "off"


def test_removal_cancels_a_live_run_and_keeps_every_run_and_result(
    bed: Bed, finished: Finished
) -> None:
    key, uid = bed.tare.key(), finished.run["metadata"]["uid"]
    bed.runs.start_run("live", **LONG)
    _until_profiling(bed.runs, "live")
    bed.tare.uninstall()

    live = bed.runs.get("benchmarkrun", "live")
    assert live["status"]["phase"] == "Cancelled"
    assert live["metadata"].get("finalizers", []) == []
    assert _profilers(bed.runs) == "off"
    kept = bed.runs.get("benchmarkrun", "quickstart")
    assert kept["status"] == finished.run["status"]
    selector = f"--selector={names.LABEL_RUN_UID}={uid}"
    assert len(bed.runs.kubectl("get", "configmaps", selector, "--output=name").split()) == 9
    left = bed.tare.space.kubectl("get", "all,serviceaccounts,roles,rolebindings", "--output=name")
    assert set(left.split()) == {"serviceaccount/default"}

    bed.tare.install()
    assert bed.tare.key() == key
    assert bed.runs.get("benchmarkrun", "quickstart")["status"] == finished.run["status"]
    until(lambda: 'run="quickstart"' in bed.tare.metrics(), 10, "the series of the old run")


def test_the_series_of_a_run_go_with_it(bed: Bed, finished: Finished) -> None:
    name = finished.run["metadata"]["name"]
    bed.runs.kubectl("delete", "benchmarkrun", name)
    until(lambda: f'run="{name}"' not in bed.tare.metrics(), 10, "the end of the run's series")


def _condition(document: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each for each in document["status"]["conditions"] if each["type"] == kind
    )
    return found


def _until_profiling(runs: Space, name: str) -> None:
    def is_profiling() -> bool:
        return condition(runs.get("benchmarkrun", name), "Profiling") == "True"

    until(is_profiling, 40, f"the profiler of {name}")


def _profilers(runs: Space) -> str:
    states = {server["profiler_running"] for server in runs.counters()}
    balance = {server["profiler_starts"] - server["profiler_stops"] for server in runs.counters()}
    return "off" if (states, balance) == ({False}, {0}) else f"{states} {balance}"
