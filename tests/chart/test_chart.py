"""What the chart renders to, by any values that it takes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from support.chart import CHART, KUBERNETES, NAMESPACE, containers, helm, one, pods, render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

ROOT = Path(__file__).parents[2]

MINIMAL: dict[str, Any] = {}
NAMESPACED: dict[str, Any] = {
    "watch": {"namespaces": ["bench", "bench-2"]},
    "crds": {"install": False},
    "rbac": {"secretReader": False, "aggregate": False},
}
EVERYTHING: dict[str, Any] = {
    "image": {"digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "allowedTargets": ["https://*.example.com", "10.0.0.0/8:8000-8100", "qwen.models.svc"],
    "secretNamespaces": ["bench"],
    "crds": {"keep": False},
    "serviceAccount": {"name": "benchmarks", "annotations": {"example.com/role": "x"}},
    "operatorKey": {"existingSecret": "my-key"},
    "service": {"port": 80},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
    },
    "metrics": {
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "dashboards": {"namespace": "monitoring", "annotations": {"grafana_folder": "Benchmarks"}},
    "resources": {"requests": {"cpu": 1}, "limits": {"memory": "2Gi"}},
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"team": "inference"},
    "nodeSelector": {"pool": "tools"},
    "tolerations": [{"key": "tools", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}
                ]
            }
        }
    },
    "priorityClassName": "high",
}
SERVICE_MONITOR: dict[str, Any] = {"metrics": {"serviceMonitor": {"enabled": True}}}
BARE: dict[str, Any] = {
    "rbac": {"create": False, "secretReader": False, "aggregate": False},
    "serviceAccount": {"create": False, "name": "mine"},
    "dashboards": {"enabled": False},
    "uninstall": {"cancelRuns": False},
    "resources": {},
}
ALL_SETS = pytest.mark.parametrize(
    "values",
    [MINIMAL, NAMESPACED, EVERYTHING, SERVICE_MONITOR, BARE],
    ids=["minimal", "namespaced", "everything", "service monitor", "bare"],
)
"""Every toggle is on in one of these sets and off in another."""


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("charts_generate", ROOT / "charts/generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_files_are_what_the_code_makes(generate: ModuleType) -> None:
    different = [
        str(path.relative_to(ROOT))
        for path, text in generate.files().items()
        if path.read_text() != text
    ]
    assert different == [], "run `make generate`"


@ALL_SETS
def test_helm_lint_finds_nothing(values: Mapping[str, Any]) -> None:
    done = helm("lint", "--strict", values=values)
    assert done.returncode == 0, done.stdout + done.stderr


@ALL_SETS
def test_every_object_is_valid_to_a_strict_api_server(values: Mapping[str, Any]) -> None:
    for document in render(values):
        if not document["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(document, KUBERNETES, strict=True)


@ALL_SETS
def test_no_object_is_rendered_twice(values: Mapping[str, Any]) -> None:
    names = [
        (document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"])
        for document in render(values)
    ]
    assert len(set(names)) == len(names)


@ALL_SETS
def test_every_pod_runs_under_the_restricted_level(values: Mapping[str, Any]) -> None:
    documents = render(values)
    for name, spec in pods(documents):
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
    for name, container in containers(documents):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False, name
        assert security["readOnlyRootFilesystem"] is True, name
        assert security["capabilities"] == {"drop": ["ALL"]}, name


def test_only_the_operator_and_the_hook_of_the_removal_have_an_api_token() -> None:
    tokens = {name for name, spec in pods(render()) if spec["automountServiceAccountToken"]}
    assert tokens == {"Deployment/tare", "Job/tare-uninstall"}


def test_the_operator_may_create_secrets_and_nothing_else_with_them() -> None:
    rules = one(render(), "ClusterRole", f"{NAMESPACE}-tare")["rules"]
    assert [rule["verbs"] for rule in rules if "secrets" in rule["resources"]] == [["create"]]


def test_no_rule_holds_a_star() -> None:
    roles = [document for document in render() if document["kind"] == "ClusterRole"]
    assert "*" not in json.dumps([role["rules"] for role in roles])


def test_the_hook_of_the_removal_may_list_and_patch_runs_and_nothing_else() -> None:
    documents = render()
    role = one(documents, "ClusterRole", f"{NAMESPACE}-tare-uninstall")
    assert role["rules"] == [
        {"apiGroups": ["tare.dev"], "resources": ["benchmarkruns"], "verbs": ["list", "patch"]}
    ]
    for document in documents:
        if document["metadata"]["name"].endswith("-uninstall"):
            assert document["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"


def test_for_some_namespaces_the_same_rights_are_roles_there() -> None:
    everywhere = one(render(), "ClusterRole", f"{NAMESPACE}-tare")["rules"]
    documents = render(NAMESPACED)
    roles = [
        document
        for document in documents
        if document["kind"] == "Role" and document["metadata"]["name"] == f"{NAMESPACE}-tare"
    ]
    assert [role["metadata"]["namespace"] for role in roles] == ["bench", "bench-2"]
    assert all(role["rules"] == everywhere for role in roles)


def test_a_namespaced_installation_needs_nothing_outside_of_namespaces() -> None:
    kinds = {document["kind"] for document in render(NAMESPACED)}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


def test_two_releases_in_two_namespaces_share_no_name_outside_of_namespaces() -> None:
    outside = {"ClusterRole", "ClusterRoleBinding"}
    names = [d["metadata"]["name"] for d in render() if d["kind"] in outside]
    assert [n for n in names if not n.startswith(NAMESPACE)] == ["tare-secret-reader"]


def test_secret_namespaces_bind_the_reader_there() -> None:
    binding = one(render(EVERYTHING), "RoleBinding")
    assert binding["metadata"]["namespace"] == "bench"
    assert binding["roleRef"]["name"] == "tare-secret-reader"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "benchmarks", "namespace": NAMESPACE}
    ]


def test_a_crd_that_is_kept_differs_by_that_annotation_alone() -> None:
    source = yaml.safe_load((ROOT / "crds" / "benchmarkruns.tare.dev.yaml").read_text())
    rendered = one(render(), "CustomResourceDefinition")
    assert rendered["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert rendered == source
    assert one(render(EVERYTHING), "CustomResourceDefinition") == source


def test_both_monitors_at_once_are_refused() -> None:
    done = helm("template", "tare", values=_merged(SERVICE_MONITOR, EVERYTHING))
    assert "scrape the operator twice" in done.stderr


def test_monitors_keep_the_namespace_that_a_series_carries() -> None:
    monitor = one(render(EVERYTHING), "PodMonitor")
    assert monitor["spec"]["podMetricsEndpoints"][0]["honorLabels"] is True
    monitor = one(render(SERVICE_MONITOR), "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["honorLabels"] is True


def test_alerts_keep_the_templates_of_prometheus() -> None:
    rule = one(render(EVERYTHING), "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "files" / "rules.yaml").read_text())
    assert "{{ $labels.outcome }}" in json.dumps(rule)


def test_a_dashboard_is_found_by_the_sidecar_of_grafana() -> None:
    dashboard = one(render(), "ConfigMap")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["tare-run.json"])["uid"] == "tare-run"
    assert one(render(EVERYTHING), "ConfigMap")["metadata"]["namespace"] == "monitoring"


def test_a_key_of_ones_own_is_used_in_place_of_a_generated_one() -> None:
    documents = render(EVERYTHING)
    assert [d for d in documents if d["kind"] == "Secret"] == []
    volumes = one(documents, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert volumes[0]["secret"]["secretName"] == "my-key"


def test_a_digest_wins_over_a_tag() -> None:
    images = dict(containers(render(EVERYTHING)))
    assert images["Deployment/tare"]["image"] == "localhost/tare-operator@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("tare", {}, "tare"),
        ("bench", {}, "bench-tare"),
        ("my-tare-1", {}, "my-tare-1"),
        ("bench", {"nameOverride": "load"}, "bench-load"),
        ("bench", {"fullnameOverride": "other"}, "other"),
        ("r" * 50, {}, "r" * 40),
    ],
)
def test_the_release_gives_the_name(release: str, values: dict[str, Any], name: str) -> None:
    assert one(render(values, release), "Deployment")["metadata"]["name"] == name


def _objects(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all objects with fixed keys in values.yaml."""
    yield path
    for name, value in values.items():
        free = {"labels", "annotations", "requests", "limits"}
        ours = isinstance(value, dict) and value and name not in free
        if ours:
            yield from _objects(value, (*path, name))


@pytest.mark.parametrize(
    "path", list(_objects(yaml.safe_load((CHART / "values.yaml").read_text()))), ids=".".join
)
def test_a_misspelt_value_is_refused_wherever_it_stands(path: tuple[str, ...]) -> None:
    values: Any = {"mispelt": 1}
    for name in reversed(path):
        values = {name: values}
    done = helm("template", "tare", values=values)
    assert done.returncode != 0
    assert "'mispelt' not allowed" in done.stderr


def test_every_value_has_a_default_and_a_description() -> None:
    def check(schema: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        assert set(schema["properties"]) - {"global"} == set(values)
        assert schema["additionalProperties"] is False
        for name, field in schema["properties"].items():
            if "description" not in field:
                check(field, values[name])

    schema = json.loads((CHART / "values.schema.json").read_text())
    check(schema, yaml.safe_load((CHART / "values.yaml").read_text()))


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for name, value in second.items():
        both = isinstance(merged.get(name), dict) and isinstance(value, dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged
