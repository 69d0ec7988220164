"""The chart and the code say the same: settings, labels, names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.chart import NAMESPACE, one, render
from tare.api import names
from tare.endpoint.secrets import READER_ROLE
from tare.runtime.settings import Settings, from_environment

if TYPE_CHECKING:
    from collections.abc import Mapping


def settings(tmp_path: Path, values: Mapping[str, Any]) -> Settings:
    """What the operator makes of the environment that the chart gives it."""
    container = one(render(values), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    key = Path(environment["TARE_OPERATOR_KEY_FILE"])
    assert str(key.parent) in mounts
    (tmp_path / "key").write_bytes(b"k" * 32)
    return from_environment({**environment, "TARE_OPERATOR_KEY_FILE": str(tmp_path / "key")})


def test_the_operator_listens_where_its_probes_and_its_service_look(tmp_path: Path) -> None:
    documents = render({"service": {"port": 80}})
    container = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["ports"] == [{"name": "http", "containerPort": settings(tmp_path, {}).port}]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    service = one(documents, "Service")["spec"]
    assert service["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]


def test_workers_are_sent_to_the_service(tmp_path: Path) -> None:
    worker = settings(tmp_path, {"service": {"port": 80}}).worker
    assert worker.inbox_url == f"http://tare.{NAMESPACE}.svc:80"
    assert worker.image == "localhost/tare-worker:dev"


def test_the_lists_of_the_values_arrive(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        {
            "watch": {"namespaces": ["a", "b"]},
            "allowedTargets": ["10.0.0.0/8:8000-8100", "[fd00::/8]:8000"],
            "workerImage": {"pullPolicy": "Always"},
        },
    )
    assert found.namespaces == ("a", "b")
    assert found.allowed_targets.allows("http://10.1.2.3:8050")
    assert found.allowed_targets.allows("http://[fd00::1]:8000")
    assert not found.allowed_targets.allows("http://192.168.0.1:8050")
    assert found.worker.pull_policy == "Always"


def test_the_policy_lets_in_the_labels_that_workers_have() -> None:
    policy = one(render({"networkPolicy": {"enabled": True}}), "NetworkPolicy")
    first = policy["spec"]["ingress"][0]["from"][0]
    assert first["podSelector"]["matchLabels"] == {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_COMPONENT: names.CONTAINER_WORKER,
    }


def test_the_role_that_messages_name_exists() -> None:
    assert one(render(), "ClusterRole", READER_ROLE)["rules"][0]["verbs"] == ["get"]


def test_rights_are_for_the_resource_that_the_crd_defines() -> None:
    crd = one(render(), "CustomResourceDefinition")
    assert (crd["spec"]["group"], crd["spec"]["names"]["plural"]) == (names.GROUP, names.PLURAL)
    rules = one(render(), "ClusterRole", f"{NAMESPACE}-tare")["rules"]
    ours = [rule for rule in rules if rule["apiGroups"] == [names.GROUP]]
    assert {resource for rule in ours for resource in rule["resources"]} == {
        names.PLURAL,
        f"{names.PLURAL}/status",
    }
