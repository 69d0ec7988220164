"""Rows about fields that this version does not build; they go when `api.unbuilt` loses theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.manifest_rows.row import ENDPOINT, PHASE, Refuser, Row, row

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["UNBUILT"]


def _unbuilt(name: str, change: Mapping[str, Any], path: str, *fragments: str) -> Row:
    return row(name, change, Refuser.OPERATOR, path, "not built in this version", *fragments)


UNBUILT = (
    _unbuilt(
        "reset after the warm-up",
        {f"{ENDPOINT}.resetKvCache": {"at": "Both"}},
        f"{ENDPOINT}.resetKvCache.at",
        "use CellStart",
    ),
    _unbuilt(
        "reset of the connector",
        {f"{ENDPOINT}.resetKvCache": {"resetExternal": True}},
        f"{ENDPOINT}.resetKvCache.resetExternal",
        "reset_external=true",
    ),
    _unbuilt(
        "reset of other servers",
        {f"{ENDPOINT}.resetKvCache": {"target": {"ports": [8001]}}},
        f"{ENDPOINT}.resetKvCache.target",
    ),
    _unbuilt(
        "profiler of other servers",
        {f"{ENDPOINT}.serverProfiler": {"target": {"ports": [8001]}}},
        f"{ENDPOINT}.serverProfiler.target",
    ),
    _unbuilt(
        "body of a profiler start",
        {f"{ENDPOINT}.serverProfiler": {"startBody": {"num_steps": 5}}},
        f"{ENDPOINT}.serverProfiler.startBody",
    ),
    _unbuilt(
        "limit of a profile in seconds",
        {f"{ENDPOINT}.serverProfiler": {"maxSeconds": 5}},
        f"{ENDPOINT}.serverProfiler.maxSeconds",
    ),
    _unbuilt(
        "limit of a profile in steps",
        {f"{ENDPOINT}.serverProfiler": {"maxIterations": 5}},
        f"{ENDPOINT}.serverProfiler.maxIterations",
    ),
    _unbuilt(
        "dataset from a file", {"spec.dataset.type": "file"}, "spec.dataset.type", "synthetic"
    ),
    _unbuilt("dataset from a trace", {"spec.dataset.type": "trace"}, "spec.dataset.type"),
    _unbuilt(
        "cache-bust marker",
        {"spec.dataset.prompts.cacheBust": {"target": "first_turn_prefix"}},
        "spec.dataset.prompts.cacheBust.target",
        "use none",
    ),
    _unbuilt(
        "scope of a marker",
        {"spec.dataset.prompts.cacheBust": {"scope": "TrajectoryAndPhase"}},
        "spec.dataset.prompts.cacheBust.scope",
    ),
    _unbuilt(
        "carrier of a marker",
        {"spec.dataset.prompts.cacheBust": {"carrier": "salt"}},
        "spec.dataset.prompts.cacheBust.carrier",
    ),
    _unbuilt(
        "shared prefix",
        {"spec.dataset.prefixPrompts": {"sharedSystemLength": 512}},
        "spec.dataset.prefixPrompts",
    ),
    _unbuilt("sessions of two turns", {"spec.dataset.turns": {"mean": 2}}, "spec.dataset.turns"),
    *(
        _unbuilt(
            f"phase of type {kind}",
            {f"{PHASE}.type": kind},
            f"{PHASE}.type",
            f"'{kind}'",
            "concurrency (closed loop), or constant, poisson or gamma (open loops)",
        )
        for kind in ("fixedSchedule", "sessions", "agenticReplay")
    ),
    _unbuilt("seamless phase", {f"{PHASE}.seamless": True}, f"{PHASE}.seamless"),
    _unbuilt("search", {"spec.sweep": {"search": {"path": "x"}}}, "spec.sweep.search", "grid"),
    _unbuilt(
        "pause between trials", {"spec.sweep.coolDownSeconds": 5}, "spec.sweep.coolDownSeconds"
    ),
    _unbuilt(
        "volume of the workers", {"spec.workers.volume": {"emptyDir": {}}}, "spec.workers.volume"
    ),
    _unbuilt("baseline", {"spec.baseline": {"run": "qwen-v1"}}, "spec.baseline"),
    _unbuilt("artifacts", {"spec.artifacts": {"emptyDir": {}}}, "spec.artifacts"),
    _unbuilt("prediction", {"spec.prediction": {"kvBlocks": 100}}, "spec.prediction"),
)
"""One or more for each row of `api.unbuilt`; a feature that is built takes its rows along."""
