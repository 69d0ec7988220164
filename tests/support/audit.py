"""What a user asked of the API server, from its audit log.

The log is `audit.jsonl` beside the kubeconfig, one event of audit.k8s.io/v1 a line; a cluster that
writes none can be given by `TARE_TEST_AUDIT`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Right", "asked", "granted", "log", "refused"]


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A verb on a resource of a group; a subresource stands behind a slash."""

    group: str
    resource: str
    verb: str

    @override
    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}"


def log() -> Path | None:
    """The audit log of the cluster under test, None when it has none."""
    beside = Path(os.environ["KUBECONFIG"]).with_name("audit.jsonl")
    path = Path(os.environ.get("TARE_TEST_AUDIT", beside))
    return path if path.exists() else None


def granted(rules: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Rights that the rules of a role give."""
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(path: Path, user: str) -> set[Right]:
    """Rights that a user made use of."""
    return {_right(event) for event in _events(path, user) if _decision(event) == "allow"}


def refused(path: Path, user: str) -> set[str]:
    """Requests of a user for which it had no right."""
    return {
        f"{event['verb']} {event['requestURI']}"
        for event in _events(path, user)
        if _decision(event) == "forbid"
    }


def _events(path: Path, user: str) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            if f'"{user}"' in line:
                event = json.loads(line)
                if event["user"]["username"] == user and "objectRef" in event:
                    yield event


def _right(event: Mapping[str, Any]) -> Right:
    about = event["objectRef"]
    parts = (about["resource"], about.get("subresource", ""))
    return Right(about.get("apiGroup", ""), "/".join(filter(None, parts)), event["verb"])


def _decision(event: Mapping[str, Any]) -> str:
    return str(event.get("annotations", {}).get("authorization.k8s.io/decision", ""))
