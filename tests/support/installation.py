"""The chart on a real cluster, in namespaces of its own, and what a test asks of them.

Nothing is built here: the images `localhost/tare-operator` and `localhost/tare-worker` were handed
to the cluster before, under the tag that `TARE_TEST_TAG` names.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from support.chart import CHART
from support.kubectl import Kubectl
from support.tools import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "OPERATOR_IMAGE",
    "SHARED",
    "WORKER_IMAGE",
    "Installation",
    "Space",
    "helm",
    "namespace",
    "until",
]

T = TypeVar("T")

KUBECONFIG = Path(os.environ.get("KUBECONFIG", ""))
TAG = os.environ.get("TARE_TEST_TAG", "dev")
OPERATOR_IMAGE = f"localhost/tare-operator:{TAG}"
WORKER_IMAGE = f"localhost/tare-worker:{TAG}"
SHARED = bool(os.environ.get("TARE_TEST_SHARED"))
"""Others run an operator on the cluster: then none of ours watches all namespaces."""
EXAMPLES = Path(__file__).parents[2] / "examples"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_SESSION = secrets.token_hex(2)
_numbers = itertools.count()


def until(ask: Callable[[], T | None], seconds: float, what: str) -> T:
    """Ask until there is an answer that is neither None nor False nor empty."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := ask():
            return answer
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.25)


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> str:
    """Run Helm, which must succeed; returns what it printed."""
    given = () if values is None else ("--values", "-")
    done = run("helm", *arguments, *given, stdin=json.dumps(values or {}))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True, slots=True)
class Space:
    """A namespace of the tests, under the restricted Pod Security level."""

    name: str
    kubectl: Kubectl

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Read one object."""
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "--output=json"))
        return found

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Apply objects."""
        text = yaml.safe_dump_all(documents)
        self.kubectl("apply", "--filename=-", text=text)

    def start_servers(self, *arguments: str, replicas: int = 3) -> None:
        """Start the simulated servers of `examples/`, with further arguments."""
        text = (EXAMPLES / "servers" / "simulated.yaml").read_text()
        documents = [each for each in yaml.safe_load_all(text) if each["kind"] != "Namespace"]
        for document in documents:
            document["metadata"]["namespace"] = self.name
        spec = documents[0]["spec"]
        spec["replicas"] = replicas
        container = spec["template"]["spec"]["containers"][0]
        container["image"] = WORKER_IMAGE
        container["args"] += arguments
        self.apply(*documents)
        self.kubectl("rollout", "status", "deployment/qwen", "--timeout=50s")

    def start_run(self, name: str, **spec: Any) -> None:
        """Create the run of `examples/quickstart.yaml` under a name; None removes a field."""
        document = yaml.safe_load((EXAMPLES / "quickstart.yaml").read_text())
        document["metadata"] = {"name": name, "namespace": self.name}
        if spec:
            # A run of the test's own goes through the Service, and may have no warm-up to isolate.
            del document["spec"]["endpoint"]["via"]
            del document["spec"]["dataset"]["prompts"]["cacheBust"]
        fields = {**document["spec"], **spec}
        document["spec"] = {key: value for key, value in fields.items() if value is not None}
        self.apply(document)

    def finish(self, name: str, seconds: float = 120) -> dict[str, Any]:
        """Wait for the end of a run and return it."""

        def ended() -> dict[str, Any] | None:
            found = self.get("benchmarkrun", name)
            return found if condition(found, "Finished") == "True" else None

        return until(ended, seconds, f"the end of {name}")

    def counters(self) -> list[dict[str, Any]]:
        """What each server counted, asked through the API server."""
        pods = self.kubectl("get", "pods", "--selector=app=qwen", "--output=name").split()
        return [
            json.loads(self.kubectl("get", "--raw", self.proxy(f"{pod}:8000/admin/counters")))
            for pod in pods
        ]

    def proxy(self, rest: str) -> str:
        """Path by which the API server hands a request on to `KIND/NAME:PORT/PATH`."""
        kind, _, path = rest.partition("/")
        name, _, path = path.partition("/")
        return f"/api/v1/namespaces/{self.name}/{kind}s/{name}/proxy/{path}"

    def run_python(self, script: str, image: str, labels: Mapping[str, str] | None = None) -> str:
        """Run a script in a pod of its own to its end; returns what it printed."""
        name = f"script-{next(_numbers)}"
        self.apply(_script_pod(name, script, image, labels or {}))

        def ended() -> str | None:
            phase: str = self.get("pod", name)["status"]["phase"]
            return phase if phase in ("Succeeded", "Failed") else None

        phase = until(ended, 60, f"the end of pod {name}")
        printed = self.kubectl("logs", name)
        assert phase == "Succeeded", printed
        return printed


@contextmanager
def namespace(purpose: str) -> Iterator[Space]:
    """Create a namespace and delete it at the end, without waiting for that."""
    name = f"chart-{purpose}-{_SESSION}"
    everywhere = Kubectl(KUBECONFIG, "default")
    everywhere("create", "namespace", name)
    everywhere("label", "namespace", name, *(f"{k}={v}" for k, v in RESTRICTED.items()))
    try:
        yield Space(name, Kubectl(KUBECONFIG, name))
    finally:
        everywhere("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@dataclass(slots=True)
class Installation:
    """A release of the chart."""

    space: Space
    values: dict[str, Any] = field(default_factory=dict)
    release: str = "tare"

    @property
    def user(self) -> str:
        """The operator, as the API server names it."""
        return f"system:serviceaccount:{self.space.name}:{self.release}"

    @contextmanager
    def installed(self) -> Iterator[str]:
        """Install, and remove at the end; gives what Helm said."""
        try:
            yield self.install()
        finally:
            self.uninstall()

    def install(self) -> str:
        """Install, or upgrade to the present values, and wait until the operator is ready."""
        return helm(
            "upgrade",
            "--install",
            self.release,
            str(CHART),
            f"--namespace={self.space.name}",
            "--wait",
            "--timeout=60s",
            # A CRD that is there already, from `kubectl apply` or an earlier release, is taken on.
            "--take-ownership",
            values={"image": {"tag": TAG}, "workerImage": {"tag": TAG}, **self.values},
        )

    def test(self) -> str:
        """Run `helm test`."""
        return helm("test", self.release, f"--namespace={self.space.name}", "--timeout=60s")

    def uninstall(self) -> str:
        """Remove the release, if it is there, and wait until its objects are gone."""
        where = f"--namespace={self.space.name}"
        how = ("--ignore-not-found", "--cascade=foreground", "--wait", "--timeout=120s")
        return helm("uninstall", self.release, where, *how)

    def hooks(self) -> list[dict[str, Any]]:
        """Objects that exist only while a hook runs."""
        text = helm("get", "hooks", self.release, f"--namespace={self.space.name}")
        return [each for each in yaml.safe_load_all(text) if each]

    def metrics(self) -> str:
        """What Prometheus would scrape."""
        service = f"/api/v1/namespaces/{self.space.name}/services/{self.release}:http"
        return self.space.kubectl("get", "--raw", f"{service}/proxy/metrics")

    def key(self) -> str:
        """The operator key, as it is stored."""
        stored: str = self.space.get("secret", f"{self.release}-operator-key")["data"]["key"]
        return stored


def condition(document: Mapping[str, Any], kind: str) -> str:
    """Status of a condition; empty when there is none."""
    conditions = document.get("status", {}).get("conditions", ())
    return next((each["status"] for each in conditions if each["type"] == kind), "")


def _script_pod(name: str, script: str, image: str, labels: Mapping[str, str]) -> dict[str, Any]:
    container = {
        "name": "script",
        "image": image,
        "command": ["python", "-c", script],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }
