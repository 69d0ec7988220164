"""`spec.workers`: the pods that send the load.

What goes into the pod as Kubernetes knows it (affinity, tolerations, …) is handed on unread; the
API server checks it when the Job is created.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from tare.api import names
from tare.api.endpoint import ConfigMapKey, SecretKey  # noqa: TC001 - read by pydantic
from tare.api.fields import (
    ATOMIC,
    DnsName,
    FreeForm,
    IntOrText,
    LabelKey,
    LabelValue,
    Line,
    Model,
    Rule,
    Seconds,
)

__all__ = ["EnvVar", "EnvVarSource", "PullSecret", "Resources", "Workers"]

_OWN_LABELS = (names.LABEL_MANAGED_BY, names.LABEL_COMPONENT, names.LABEL_QUEUE)
_OWN_LABEL_PREFIXES = (f"{names.GROUP}/", "batch.kubernetes.io/")
_OWN_ENV = (names.ENV_POD_NAME, names.ENV_POD_UID, names.ENV_INDEX)
_OWN_ENV_PREFIX = "TARE_"

Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=32)]
PodFields = Annotated[tuple[dict[str, Any], ...], Field(max_length=32, json_schema_extra=ATOMIC)]


class PullSecret(Model):
    """A Secret with credentials of an image registry."""

    name: DnsName
    """Name of the Secret."""


class EnvVarSource(Model):
    """Where the value of a variable comes from."""

    RULES = (
        Rule(
            holds=lambda source: (
                (source.secret_key_ref is None) != (source.config_map_key_ref is None)
            ),
            cel="has(self.secretKeyRef) != has(self.configMapKeyRef)",
            message="give exactly one of secretKeyRef and configMapKeyRef",
        ),
    )

    secret_key_ref: SecretKey | None = None
    """An entry of a Secret."""
    config_map_key_ref: ConfigMapKey | None = None
    """An entry of a ConfigMap."""


class EnvVar(Model):
    """An environment variable of the workers."""

    RULES = (
        Rule(
            holds=lambda variable: variable.value is None or variable.value_from is None,
            cel="!has(self.value) || !has(self.valueFrom)",
            message="a variable has value or valueFrom, not both; remove one",
        ),
        Rule(
            field="name",
            holds=lambda variable: (
                variable.name not in _OWN_ENV and not variable.name.startswith(_OWN_ENV_PREFIX)
            ),
            cel=f"!(self.name in {list(_OWN_ENV)}) && !self.name.startsWith('{_OWN_ENV_PREFIX}')",
            message="this variable is set by the operator; choose another name",
        ),
    )

    name: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    """Name of the variable."""
    value: Line | None = None
    """Its value."""
    value_from: EnvVarSource | None = None
    """Take the value from a Secret or a ConfigMap."""


class Resources(Model):
    """Compute resources of a worker, as in a pod."""

    requests: Annotated[dict[LabelKey, IntOrText], Field(max_length=16)] = Field(
        default_factory=dict
    )
    """What the scheduler sets aside, as cpu: 500m."""
    limits: Annotated[dict[LabelKey, IntOrText], Field(max_length=16)] = Field(default_factory=dict)
    """What a worker may use at most; a limit on cpu distorts what it measures."""


def _foreign(label: str) -> bool:
    """Whether a label is none of the operator's own."""
    return label not in _OWN_LABELS and not label.startswith(_OWN_LABEL_PREFIXES)


class Workers(Model):
    """The pods that send the load."""

    RULES = (
        Rule(
            field="labels",
            holds=lambda workers: all(map(_foreign, workers.labels)),
            cel="!has(self.labels) || self.labels.all(k, "
            f"!(k in {list(_OWN_LABELS)}) && "
            + " && ".join(f"!k.startsWith('{prefix}')" for prefix in _OWN_LABEL_PREFIXES)
            + ")",
            message="labels of tare.dev, batch.kubernetes.io, app.kubernetes.io/managed-by and "
            "/component, and Kueue's queue name are set by the operator; remove them",
        ),
    )

    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    """Number of worker pods that share the load."""
    processes: Annotated[int, Field(ge=1, le=128)] = 1
    """Processes in each pod; one uses one core."""
    start_timeout_seconds: Seconds = 300
    """How long the workers of a cell may take until all are there."""
    resources: Resources = Resources()
    """Compute resources of a worker."""
    labels: Labels = Field(default_factory=dict)
    """Labels added to the pods."""
    annotations: Annotated[
        dict[LabelKey, Annotated[str, StringConstraints(max_length=4096)]], Field(max_length=32)
    ] = Field(default_factory=dict)
    """Annotations added to the pods."""
    image_pull_secrets: Annotated[
        tuple[PullSecret, ...], Field(max_length=16, json_schema_extra=ATOMIC)
    ] = ()
    """Secrets for the registry of the worker's image."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64, json_schema_extra=ATOMIC)] = ()
    """Environment variables added to the workers."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels of the nodes that may run workers; keep them off the model's nodes."""
    tolerations: PodFields = ()
    """Tolerations of the pods."""
    affinity: FreeForm = Field(default_factory=dict)
    """Affinity of the pods."""
    topology_spread_constraints: PodFields = ()
    """Topology spread constraints of the pods."""
    priority_class_name: Annotated[str, StringConstraints(max_length=253)] = ""
    """Priority class of the pods."""
    volume: FreeForm = Field(default_factory=dict)
    """Source of a volume for the workers, as in a pod."""
    prestart: bool = True
    """Start the next cell's pods before the current one begins, so that no cell waits for pods."""
