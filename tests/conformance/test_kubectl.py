"""kubectl: the commands that the documentation uses, without any flag that other clusters need not.

Each command is a process of its own; it validates, so that a missing OpenAPI document shows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.clusters import IMAGE

if TYPE_CHECKING:
    from support.clusters import Kubectl

PROBE = """
apiVersion: conformance.tare.dev/v1
kind: Probe
metadata: {name: p}
spec: {size: 3, colour: green}
"""
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: p, labels: {{app: p}}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: {IMAGE}
    command: [python3, -u, -c, "import time; print('hello'); time.sleep(600)"]
"""

pytestmark = pytest.mark.usefixtures("probes")


@pytest.fixture
def probed(kubectl: Kubectl, probes: str) -> Kubectl:
    """kubectl, once it can find our resource and its OpenAPI document."""
    assert probes
    kubectl.until("size", "explain", "probes.spec")
    return kubectl


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def test_apply_creates_changes_and_leaves_alone(probed: Kubectl) -> None:
    first = probed("apply", "-f", "-", stdin=PROBE)
    again = probed("apply", "-f", "-", stdin=PROBE)
    changed = probed("apply", "-f", "-", stdin=PROBE.replace("green", "red"))

    assert first == "probe.conformance.tare.dev/p created\n"
    assert again == "probe.conformance.tare.dev/p unchanged\n"
    assert changed == "probe.conformance.tare.dev/p configured\n"


def test_apply_refuses_a_misspelt_field(probed: Kubectl) -> None:
    text = probed("apply", "-f", "-", stdin=PROBE.replace("colour", "color"), check=False)

    assert 'strict decoding error: unknown field "spec.color"' in text


def test_apply_merges_a_built_in_kind_by_its_keys(kubectl: Kubectl) -> None:
    service = """
apiVersion: v1
kind: Service
metadata: {name: s}
spec:
  selector: {app: p}
  ports: [{name: a, port: 1001}, {name: b, port: 1002}]
"""
    kubectl("apply", "-f", "-", stdin=service)

    kubectl("apply", "-f", "-", stdin=service.replace("{name: a, port: 1001}, ", ""))

    ports = json.loads(kubectl("get", "service", "s", "-o", "json"))["spec"]["ports"]
    assert [port["name"] for port in ports] == ["b"]


def test_a_dry_run_on_the_server_checks_and_stores_nothing(probed: Kubectl) -> None:
    good = probed("apply", "--dry-run=server", "-f", "-", stdin=PROBE)
    bad = probed(
        "apply",
        "--dry-run=server",
        "-f",
        "-",
        stdin=PROBE.replace("size: 3", "size: 3, service: s, url: http://a"),
        check=False,
    )

    assert good == "probe.conformance.tare.dev/p created (server dry run)\n"
    assert "service and url exclude each other" in bad
    assert "not found" in probed("get", "probe", "p", check=False)


def test_server_side_apply_names_the_conflict(probed: Kubectl) -> None:
    probed("apply", "--server-side", "-f", "-", stdin=PROBE)

    text = probed(
        "apply",
        "--server-side",
        "--field-manager=other",
        "-f",
        "-",
        stdin=PROBE.replace("size: 3", "size: 4"),
        check=False,
    )

    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.size' in text


def test_get_prints_the_columns_of_the_definition(probed: Kubectl) -> None:
    probed("apply", "-f", "-", stdin=PROBE)
    status = '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}'
    probed("patch", "probe", "p", "--subresource=status", "--type=merge", "-p", status)

    narrow = rows(probed("get", "probes"))
    wide = rows(probed("get", "prb", "p", "-o", "wide"))

    assert narrow[0] == ["NAME", "SIZE", "READY", "AGE"]
    assert narrow[1][:3] == ["p", "3", "True"]
    assert wide[0] == ["NAME", "SIZE", "READY", "COLOUR", "AGE"]
    assert wide[1][3] == "green"


def test_get_prints_yaml_and_chooses_by_label(probed: Kubectl) -> None:
    probed("apply", "-f", "-", stdin=PROBE)
    probed("label", "probe", "p", "tier=a")

    chosen = probed("get", "probes", "-l", "tier=a", "-o", "yaml")
    none = probed("get", "probes", "-l", "tier=b")

    assert "colour: green" in chosen
    assert none.startswith("No resources found")


def test_get_watches(probed: Kubectl) -> None:
    probed("apply", "-f", "-", stdin=PROBE)
    process = probed.start("get", "probes", "-w")
    assert process.stdout is not None
    try:
        header, first = process.stdout.readline(), process.stdout.readline()
        probed("patch", "probe", "p", "--type=merge", "-p", '{"spec": {"size": 9}}')
        second = process.stdout.readline()
    finally:
        process.kill()
        process.communicate()

    assert header.split()[:2] == ["NAME", "SIZE"]
    assert first.split()[:2] == ["p", "3"]
    assert second.split()[:2] == ["p", "9"]


def test_explain_reads_our_definition_and_built_in_kinds(probed: Kubectl) -> None:
    ours = probed("explain", "probes.spec.size")
    theirs = probed("explain", "jobs.spec.backoffLimitPerIndex")

    assert "KIND:       Probe" in ours
    assert "How large." in ours
    assert "FIELD: backoffLimitPerIndex <integer>" in theirs


def test_wait_returns_with_the_condition(probed: Kubectl) -> None:
    probed("apply", "-f", "-", stdin=PROBE)
    process = probed.start("wait", "probe/p", "--for=condition=Finished", "--timeout=60s")
    status = '{"status": {"conditions": [{"type": "Finished", "status": "True"}]}}'
    probed("patch", "probe", "p", "--subresource=status", "--type=merge", "-p", status)

    output, _ = process.communicate(timeout=60)

    assert output == "probe.conformance.tare.dev/p condition met\n"


def test_delete_waits_until_the_object_is_gone(probed: Kubectl) -> None:
    probed("apply", "-f", "-", stdin=PROBE)

    text = probed("delete", "probe", "p")

    assert text.startswith('probe.conformance.tare.dev "p" deleted')
    assert "not found" in probed("get", "probe", "p", check=False)


def test_the_simple_creates_work(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=1")
    kubectl("create", "secret", "generic", "s", "--from-literal=token=abc")
    kubectl("create", "serviceaccount", "a")

    config_map = json.loads(kubectl("get", "configmap", "c", "-o", "json"))
    secret = json.loads(kubectl("get", "secret", "s", "-o", "json"))
    assert config_map["data"] == {"a": "1"}
    assert (secret["data"], secret["type"]) == ({"token": "YWJj"}, "Opaque")


def test_a_namespace_is_created_and_deleted(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-more"

    assert kubectl("create", "namespace", name) == f"namespace/{name} created\n"
    kubectl("delete", "namespace", name)

    assert "not found" in kubectl("get", "namespace", name, check=False)


def test_a_pod_can_be_followed_from_apply_to_delete(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POD)
    kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=60s")

    table = rows(kubectl("get", "pods"))
    wide = rows(kubectl("get", "pods", "-o", "wide"))
    description = kubectl("describe", "pod", "p")
    log = kubectl.until("hello", "logs", "p")
    deleted = kubectl("delete", "pod", "p")

    assert table[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert table[1][:4] == ["p", "1/1", "Running", "0"]
    assert wide[0][5:7] == ["IP", "NODE"]
    assert "Successfully assigned" in description
    assert "Started container main" in description or "Container started" in description
    assert log == "hello\n"
    assert deleted.startswith('pod "p" deleted')


def test_logs_follow_a_pod_to_its_end(kubectl: Kubectl) -> None:
    script = "import time; print('one'); time.sleep(1); print('two')"
    pod = POD.replace("import time; print('hello'); time.sleep(600)", script)
    kubectl("apply", "-f", "-", stdin=pod)
    kubectl("wait", "pod/p", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")

    assert kubectl("logs", "-f", "p") == "one\ntwo\n"


def test_a_job_is_listed_with_its_completions(kubectl: Kubectl) -> None:
    job: Any = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "backoffLimitPerIndex": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "main", "image": IMAGE, "command": ["python3", "-c", "pass"]}
                    ],
                }
            },
        },
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(job))
    kubectl("wait", "job/j", "--for=condition=Complete", "--timeout=60s")

    table = rows(kubectl("get", "jobs"))
    events = kubectl("get", "events", "--field-selector=involvedObject.kind=Job")
    description = kubectl("describe", "job", "j")

    assert table[0] == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert table[1][:3] == ["j", "Complete", "2/2"]
    assert "SuccessfulCreate" in events
    assert "Completed Indexes:" in description


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("services", ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"]),
        ("configmaps", ["NAME", "DATA", "AGE"]),
        ("secrets", ["NAME", "TYPE", "DATA", "AGE"]),
        ("leases", ["NAME", "HOLDER", "AGE"]),
        ("endpointslices", ["NAME", "ADDRESSTYPE", "PORTS", "ENDPOINTS", "AGE"]),
        ("namespaces", ["NAME", "STATUS", "AGE"]),
    ],
)
def test_built_in_kinds_have_their_columns(kubectl: Kubectl, kind: str, columns: list[str]) -> None:
    kubectl("create", "configmap", "c")
    kubectl("create", "secret", "generic", "s")
    kubectl("apply", "-f", "-", stdin=OTHERS)

    table = kubectl.until("NAME", "get", kind)  # a slice comes a moment later

    assert rows(table)[0] == columns


OTHERS = """
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {selector: {app: p}, ports: [{port: 80}]}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: l}
spec: {holderIdentity: me}
"""


def test_rights_can_be_asked_for(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "jobs") == "yes\n"
