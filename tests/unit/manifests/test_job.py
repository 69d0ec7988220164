"""The worker Job: what is applied, literally, and the rules that every variation keeps."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from support.golden import assert_golden
from support.manifest_builder import KEY, OWNER, job_of, order_of, phase
from support.strict_kubernetes import assert_valid
from tare.api import names
from tare.decide.children import TrialKey
from tare.manifests.job import job_name
from tare.measure.wire import decode
from tare.plan.order import WorkOrder

GOLDEN = Path(__file__).parent / "golden"
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
ODD_RUNS = ("demo.test", "a" * 253, "0", "a.b-c.d", "x" + "-y" * 60, "7.z" * 40)
ODD_MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct:fp8@v2",
    "/models/UPPER case/ünïcode",
    "m" * 256,
)
EVERYTHING: dict[str, Any] = {
    "endpoint": {
        "apiKeySecretRef": {"name": "qwen-key", "key": "token"},
        "headers": [
            {"name": "X-Team", "value": "perf"},
            {"name": "X-Auth", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
        "extraBody": {"temperature": 0},
    },
    "queueName": "gpu-queue",
    "goodput": {"time_to_first_token": "500ms"},
    "workers": {
        "replicas": 3,
        "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "512Mi"}},
        "labels": {"team": "perf"},
        "annotations": {"example.com/note": "load"},
        "imagePullSecrets": [{"name": "registry"}],
        "env": [
            {"name": "UVLOOP", "value": "1"},
            {"name": "PROXY", "valueFrom": {"configMapKeyRef": {"name": "net", "key": "proxy"}}},
        ],
        "nodeSelector": {"pool": "load"},
        "tolerations": [{"key": "load", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ],
        "priorityClassName": "low",
    },
}


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = job["spec"]["template"]
    return template


def container_of(job: dict[str, Any]) -> dict[str, Any]:
    [container] = pod_of(job)["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def env_of(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in container_of(job)["env"]}


@pytest.mark.parametrize(
    ("name", "fields"), [("job-minimal", {}), ("job-with-everything", EVERYTHING)]
)
def test_the_job_is_the_one_that_was_reviewed(name: str, fields: dict[str, Any]) -> None:
    job = job_of(**fields)
    assert_valid(job)
    order = env_of(job)[names.ENV_ORDER]
    assert decode(WorkOrder, order["value"]) == order_of(**fields)
    order["value"] = "(the work order)"
    assert_golden(GOLDEN / f"{name}.yaml", job)


def test_b103_no_pod_is_started_a_second_time() -> None:
    spec = job_of(workers={"replicas": 4})["spec"]
    assert spec["completionMode"] == "Indexed"
    assert (spec["completions"], spec["parallelism"]) == (4, 4)
    assert spec["backoffLimitPerIndex"] == 0
    assert "podFailurePolicy" not in spec
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(("run", "model"), list(product(ODD_RUNS, ODD_MODELS)))
def test_b94_b110_odd_names_of_runs_and_models_give_valid_names_and_labels(
    run: str, model: str
) -> None:
    job = job_of(replace(OWNER, name=run), endpoint={"model": model})
    name, labels = job["metadata"]["name"], job["metadata"]["labels"]
    assert len(name) <= names.MAX_CHILD_NAME
    assert DNS_LABEL.fullmatch(name)
    for value in (*labels.values(), *pod_of(job)["metadata"]["labels"].values()):
        assert len(value) <= 63
        assert LABEL.fullmatch(value)
    order = decode(WorkOrder, env_of(job)[names.ENV_ORDER]["value"])
    assert (order.run, order.target.model) == (run, model)
    assert_valid(job)


def test_attempts_and_runs_never_share_a_name() -> None:
    runs = (*ODD_RUNS, "demo-test", "a" * 252)
    keys = (TrialKey(0, 0, 1), TrialKey(0, 0, 2), TrialKey(0, 1, 1), TrialKey(499, 29, 9))
    found = {job_name(run, key) for run in runs for key in keys}
    assert len(found) == len(runs) * len(keys)
    assert max(map(len, found)) <= names.MAX_CHILD_NAME


def test_the_children_of_a_run_are_found_by_its_uid_and_go_with_it() -> None:
    metadata = job_of()["metadata"]
    assert metadata["labels"][names.LABEL_RUN_UID] == OWNER.uid
    [reference] = metadata["ownerReferences"]
    assert (reference["uid"], reference["controller"]) == (OWNER.uid, True)


@pytest.mark.parametrize("fields", [{}, EVERYTHING])
def test_the_pod_may_run_under_the_restricted_security_level(fields: dict[str, Any]) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted."""
    job = job_of(**fields)
    pod, container = pod_of(job)["spec"], container_of(job)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] != 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & pod.keys()


def test_a_worker_has_no_rights_in_the_cluster() -> None:
    pod = pod_of(job_of())["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod


def test_secret_values_reach_a_worker_only_through_its_environment() -> None:
    job = job_of(**EVERYTHING)
    order = decode(WorkOrder, env_of(job)[names.ENV_ORDER]["value"])
    secret = [header for header in order.target.headers if header.env is not None]
    assert [header.name for header in secret] == ["Authorization", "X-Auth"]
    for header in secret:
        assert header.value is None
        assert header.env is not None
        source = env_of(job)[header.env]
        assert source.keys() == {"name", "valueFrom"}
        assert source["valueFrom"].keys() == {"secretKeyRef"}
    assert env_of(job)[names.ENV_TOKEN].keys() == {"name", "valueFrom"}


def test_what_the_user_adds_cannot_replace_the_operators_own_labels() -> None:
    job = job_of(workers={"labels": {"team": "perf"}})
    labels = pod_of(job)["metadata"]["labels"]
    assert labels["team"] == "perf"
    assert labels[names.LABEL_COMPONENT] == names.CONTAINER_WORKER
    assert labels[names.LABEL_CELL] == str(KEY.cell)


@pytest.mark.parametrize(
    ("annotations", "inject"), [({}, "false"), ({"sidecar.istio.io/inject": "true"}, "true")]
)
def test_no_sidecar_stands_beside_a_worker_unless_the_user_wants_it(
    annotations: dict[str, str], inject: str
) -> None:
    job = job_of(workers={"annotations": annotations})
    assert pod_of(job)["metadata"]["annotations"] == {"sidecar.istio.io/inject": inject}


def test_the_queue_is_on_the_job_for_kueue_and_not_on_the_pods() -> None:
    job = job_of(queueName="gpu-queue")
    assert job["metadata"]["labels"][names.LABEL_QUEUE] == "gpu-queue"
    assert names.LABEL_QUEUE not in pod_of(job)["metadata"]["labels"]
    assert names.LABEL_QUEUE not in job_of()["metadata"]["labels"]


def test_the_kubelet_finds_no_variable_to_expand_in_the_work_order() -> None:
    """https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/."""
    body = {"stop": "$(UVLOOP) costs $$(5)"}
    job = job_of(endpoint={"extraBody": body}, workers={"env": [{"name": "UVLOOP", "value": "1"}]})
    text = env_of(job)[names.ENV_ORDER]["value"]
    assert "$" not in text
    assert decode(WorkOrder, text).target.extra_body == body


def test_phases_of_the_order_are_those_of_the_spec() -> None:
    phases = [phase(name="warmup", kind="warmup", requests=5), phase(durationSeconds=60)]
    order = decode(WorkOrder, env_of(job_of(phases=phases))[names.ENV_ORDER]["value"])
    assert [(p.name, p.kind) for p in order.phases] == [
        ("warmup", "warmup"),
        ("profiling", "profiling"),
    ]


def test_the_kubelet_reads_the_authority_from_the_runs_secret() -> None:
    reference = {"name": "ca", "key": "ca.crt"}
    job = job_of(endpoint={"tls": {"caSecretRef": reference}})
    assert_valid(job)
    assert env_of(job)[names.ENV_AUTHORITY]["valueFrom"] == {"secretKeyRef": reference}
    assert names.ENV_AUTHORITY not in env_of(job_of(endpoint={"tls": {}}))
