"""Names that cross a border: API group, labels, finalizers, environment, child names.

Standard library only: workers import this module, and a worker's start-up time is part of the
product. Each constant says who writes it and who reads it.
"""

from __future__ import annotations

import hashlib
import re

__all__ = [
    "API_VERSION",
    "CONTAINER_WORKER",
    "ENV_AUTHORITY",
    "ENV_INBOX",
    "ENV_INDEX",
    "ENV_ORDER",
    "ENV_POD_NAME",
    "ENV_POD_UID",
    "ENV_TOKEN",
    "FINALIZER_DRIVER",
    "FINALIZER_PROFILER",
    "GROUP",
    "ISOLATION_TARGETS",
    "KIND",
    "LABEL_ATTEMPT",
    "LABEL_BASELINE_OF",
    "LABEL_CELL",
    "LABEL_COMPONENT",
    "LABEL_MANAGED_BY",
    "LABEL_QUEUE",
    "LABEL_RUN",
    "LABEL_RUN_UID",
    "LABEL_TRIAL",
    "MANAGED_BY",
    "MARKER_TOKENS",
    "MAX_CHILD_NAME",
    "PLURAL",
    "SHORT_NAME",
    "SINGULAR",
    "VERSION",
    "child_name",
    "label_value",
]

GROUP = "tare.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "BenchmarkRun"
PLURAL = "benchmarkruns"
SINGULAR = "benchmarkrun"
SHORT_NAME = "br"

FINALIZER_DRIVER = f"{GROUP}/finalizer"
"""Set and removed by Kopf while a run has a driver."""
FINALIZER_PROFILER = f"{GROUP}/profiler"
"""Set by the operator before the first profiler start, removed once every profiler is stopped."""

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
"""On every child; the operator's watches select by it."""
MANAGED_BY = "tare"
LABEL_COMPONENT = "app.kubernetes.io/component"
"""`worker` on pods; the chart's NetworkPolicy selects by it."""
LABEL_RUN = f"{GROUP}/run"
"""Name of the run as a label value (`label_value`); for people."""
LABEL_RUN_UID = f"{GROUP}/run-uid"
"""UID of the run; the operator selects a run's children by it."""
LABEL_CELL = f"{GROUP}/cell"
LABEL_TRIAL = f"{GROUP}/trial"
LABEL_ATTEMPT = f"{GROUP}/attempt"
LABEL_BASELINE_OF = f"{GROUP}/baseline-of"
"""UID of the run that was given a copy of its baseline; on that copy instead of the labels of the
run's own results, whose selectors must not find it."""
LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
"""Read by Kueue's webhook, which suspends the Job until it is admitted."""

CONTAINER_WORKER = "worker"

ENV_ORDER = "TARE_WORK_ORDER"
"""JSON of `plan.order.WorkOrder`: the operator writes it, the worker reads it."""
ENV_INBOX = "TARE_INBOX"
"""Base URL of the operator's inbox."""
ENV_TOKEN = "TARE_TOKEN"  # noqa: S105 - the name of the variable
"""The run's bearer token for the inbox, from the run's Secret."""
ENV_AUTHORITY = "TARE_TARGET_CA"
"""PEM of the authority that signed the target's certificate, from the Secret that the run names."""
ENV_POD_NAME = "POD_NAME"
ENV_POD_UID = "POD_UID"
ENV_INDEX = "JOB_COMPLETION_INDEX"
"""Set by the Job controller: 0 … workers.replicas - 1."""

ISOLATION_TARGETS = ("warmup_isolation_system", "warmup_isolation_first_turn")
"""Values of `cacheBust.target` that mark the warm-up only; all others mark single trajectories."""
MARKER_TOKENS = {"rid": 16, "warmup": 4}
"""What `[rid:…]` and `[warmup]` cost at most with today's tokenizers, blank line included.

The API refuses lengths that a marker would fill; workers count with it when nobody can be asked.
"""

MAX_CHILD_NAME = 57
"""Pods of an Indexed Job append `-<index>-<5 characters>`; a pod's host name has 63 at most."""

_HASH_LENGTH = 8
_NOT_DNS = re.compile(r"[^a-z0-9-]+")
_NOT_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_LABEL = 63


def child_name(run: str, *parts: str | int, limit: int = MAX_CHILD_NAME) -> str:
    """Build a DNS-1123 label for a child of `run`; the same arguments always give the same name.

    A name that had to be changed (dots, upper case) or shortened carries a hash of the original,
    so that two runs never meet in one name.
    """
    suffix = "".join(f"-{part}" for part in parts)
    plain = _NOT_DNS.sub("-", run.lower()).strip("-")
    if plain == run and len(plain) + len(suffix) <= limit:
        return plain + suffix
    digest = hashlib.sha256(run.encode()).hexdigest()[:_HASH_LENGTH]
    room = limit - len(suffix) - _HASH_LENGTH - 1
    return f"{plain[:room].strip('-') or 'run'}-{digest}{suffix}"


def label_value(text: str) -> str:
    """Turn any text into a valid label value: at most 63 characters, changed texts get a hash.

    Model names hold slashes and colons that the API server refuses in labels.
    """
    plain = _NOT_LABEL.sub("-", text).strip("-_.")
    if plain == text and len(plain) <= _MAX_LABEL:
        return plain
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    room = _MAX_LABEL - _HASH_LENGTH - 1
    return f"{plain[:room].strip('-_.') or 'x'}-{digest}"
