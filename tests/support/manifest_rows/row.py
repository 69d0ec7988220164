"""A row of the table of manifests, and the valid manifest that rows change."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = [
    "DELETE",
    "ENDPOINT",
    "PHASE",
    "SECRET",
    "Refuser",
    "Row",
    "Variation",
    "changed",
    "row",
    "valid_manifest",
]

DELETE = object()
"""As a value: take the field out."""
ENDPOINT = "spec.endpoint"
PHASE = "spec.phases[1]"
"""The profiling phase of the valid manifest."""
SECRET = {"name": "s", "key": "k"}


class Refuser(StrEnum):
    """Who refuses a manifest first."""

    SCHEMA = "schema"
    CEL = "cel"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A change of the valid manifest."""

    name: str
    change: Mapping[str, Any]
    """Path to value, as `spec.phases[0].rate`."""

    @property
    def manifest(self) -> dict[str, Any]:
        """The changed manifest."""
        return changed(self.change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Variation):
    """A change that makes the manifest invalid."""

    refused_by: Refuser
    path: str
    """Field that the message names."""
    fragments: tuple[str, ...] = field(default=())


def valid_manifest() -> dict[str, Any]:
    """A small manifest that everybody accepts."""
    return {
        "apiVersion": "tare.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "qwen", "namespace": "api-test"},
        "spec": {
            "endpoint": {
                "service": {"name": "qwen", "port": "http"},
                "model": "Qwen/Qwen3-8B",
                "server": "vllm",
                "headers": [{"name": "X-Team", "value": "perf"}],
                "resetKvCache": True,
                "serverProfiler": {"timeoutSeconds": 15},
            },
            "dataset": {"prompts": {"isl": 512, "osl": {"mean": 64, "stddev": 8}}},
            "phases": [
                {
                    "name": "warmup",
                    "kind": "warmup",
                    "type": "concurrency",
                    "concurrency": 2,
                    "requests": 8,
                },
                {
                    "name": "profiling",
                    "kind": "profiling",
                    "type": "constant",
                    "rate": 2.5,
                    "durationSeconds": 10,
                },
            ],
            "sweep": {"grid": {"phases.profiling.rate": [2, 4]}},
            "trials": {"count": 2, "order": "Interleaved"},
            "goals": [
                {"metric": "time_to_first_token", "statistic": "p99", "max": "500ms"},
                {"metric": "error_rate", "max": "1%"},
            ],
            "workers": {"replicas": 2},
        },
    }


def changed(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the valid manifest with some fields changed."""
    manifest = valid_manifest()
    for path, value in change.items():
        *way, last = _steps(path)
        target: Any = manifest
        for step in way:
            target = target.setdefault(step, {}) if isinstance(target, dict) else target[step]
        if value is DELETE:
            del target[last]
        else:
            target[last] = copy.deepcopy(value)
    return manifest


def _steps(path: str) -> list[str | int]:
    return [
        int(number) if number else name
        for name, number in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)
    ]


def row(
    name: str,
    change: Mapping[str, Any],
    refused_by: Refuser,
    path: str,
    *fragments: str,
) -> Row:
    """Write a row of the table in one go."""
    return Row(name=name, change=change, refused_by=refused_by, path=path, fragments=fragments)
