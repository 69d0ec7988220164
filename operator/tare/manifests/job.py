"""The worker Job of one attempt: an Indexed Job, one pod a worker.

`backoffLimitPerIndex: 0` without a podFailurePolicy was measured to be the one setting that blames
the right index, lets the other workers hand in what they have, and never starts a pod behind our
back. The pods run under the restricted Pod Security level and have no API token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tare.api import names
from tare.decide.children import TrialKey
from tare.manifests.metadata import Owner, child_metadata, trial_labels
from tare.manifests.secret import TOKEN_KEY, token_secret_name
from tare.measure.wire import encode
from tare.net.auth import Header, SecretKey, env_entries, secret_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.api.workers import Workers
    from tare.plan.order import WorkOrder

__all__ = ["WorkerImage", "build_job", "job_name"]

_TERMINATION_GRACE = 15
_USER = 65532


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerImage:
    """What the worker pods run and where they report."""

    image: str
    inbox_url: str
    pull_policy: str = "IfNotPresent"


def job_name(run: str, key: TrialKey) -> str:
    """Name of an attempt's Job; the same key gives the same name."""
    return names.child_name(run, key.cell, key.trial, key.attempt)


def build_job(
    owner: Owner,
    order: WorkOrder,
    *,
    workers: Workers,
    worker_image: WorkerImage,
    headers: Sequence[Header] = (),
    authority: SecretKey | None = None,
    queue_name: str = "",
) -> dict[str, Any]:
    """Build the Job of the attempt that `order` describes.

    The kubelet puts secret headers, and the certificate of the target's `authority`, into the
    variables that the order names.
    """
    secrets = [*env_entries(headers)]
    if authority is not None:
        secrets.append(secret_entry(names.ENV_AUTHORITY, authority))
    key = TrialKey(order.cell, order.trial, order.attempt)
    labels = trial_labels(owner, key)
    job_labels = {**labels, names.LABEL_QUEUE: queue_name} if queue_name else labels
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child_metadata(owner, job_name(owner.name, key), job_labels),
        "spec": {
            "completionMode": "Indexed",
            "completions": workers.replicas,
            "parallelism": workers.replicas,
            "backoffLimitPerIndex": 0,
            "template": _pod_template(owner, order, labels, workers, worker_image, secrets),
        },
    }


def _pod_template(
    owner: Owner,
    order: WorkOrder,
    labels: dict[str, str],
    workers: Workers,
    worker_image: WorkerImage,
    secrets: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _TERMINATION_GRACE,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(owner, order, workers, worker_image, secrets)],
    }
    spec.update(_placement(workers))
    # A sidecar would keep the pod running and sit between client and server; users can turn it on.
    annotations = {"sidecar.istio.io/inject": "false", **workers.annotations}
    pod_labels = {**workers.labels, **labels, names.LABEL_COMPONENT: names.CONTAINER_WORKER}
    return {"metadata": {"labels": pod_labels, "annotations": annotations}, "spec": spec}


def _container(
    owner: Owner,
    order: WorkOrder,
    workers: Workers,
    worker_image: WorkerImage,
    secrets: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    token = {"name": token_secret_name(owner), "key": TOKEN_KEY}
    env: list[dict[str, Any]] = [
        *(v.model_dump(by_alias=True, exclude_none=True) for v in workers.env),
        {"name": names.ENV_INBOX, "value": worker_image.inbox_url},
        {"name": names.ENV_ORDER, "value": _literal(order)},
        {"name": names.ENV_TOKEN, "valueFrom": {"secretKeyRef": token}},
        {"name": names.ENV_POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": names.ENV_POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        *secrets,
    ]
    return {
        "name": names.CONTAINER_WORKER,
        "image": worker_image.image,
        "imagePullPolicy": worker_image.pull_policy,
        "args": ["worker"],
        "env": env,
        "resources": workers.resources.model_dump(by_alias=True),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _literal(order: WorkOrder) -> str:
    """Write the order as JSON in which the kubelet finds no `$(VARIABLE)` to expand."""
    return encode(order).decode().replace("$", r"\u0024")


def _placement(workers: Workers) -> dict[str, Any]:
    """Fields that go into the pod as the user wrote them, when they did."""
    given = {
        "imagePullSecrets": [{"name": secret.name} for secret in workers.image_pull_secrets],
        "nodeSelector": workers.node_selector,
        "tolerations": list(workers.tolerations),
        "affinity": workers.affinity,
        "topologySpreadConstraints": list(workers.topology_spread_constraints),
        "priorityClassName": workers.priority_class_name,
    }
    return {name: value for name, value in given.items() if value}
