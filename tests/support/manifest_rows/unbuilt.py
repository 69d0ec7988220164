"""Rows about fields that this version does not build; they go when `api.unbuilt` loses theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.manifest_rows.row import PHASE, Refuser, Row, row

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["UNBUILT"]


def _unbuilt(name: str, change: Mapping[str, Any], path: str, *fragments: str) -> Row:
    return row(name, change, Refuser.OPERATOR, path, "not built in this version", *fragments)


UNBUILT = (
    _unbuilt(
        "dataset from a file", {"spec.dataset.type": "file"}, "spec.dataset.type", "synthetic"
    ),
    _unbuilt("dataset from a trace", {"spec.dataset.type": "trace"}, "spec.dataset.type"),
    *(
        _unbuilt(
            f"phase of type {kind}",
            {f"{PHASE}.type": kind},
            f"{PHASE}.type",
            f"'{kind}'",
            "concurrency or sessions (closed loops), or constant, poisson or gamma (open loops)",
        )
        for kind in ("fixedSchedule", "agenticReplay")
    ),
    _unbuilt("search", {"spec.sweep": {"search": {"path": "x"}}}, "spec.sweep.search", "grid"),
    _unbuilt(
        "pause between trials", {"spec.sweep.coolDownSeconds": 5}, "spec.sweep.coolDownSeconds"
    ),
    _unbuilt(
        "volume of the workers", {"spec.workers.volume": {"emptyDir": {}}}, "spec.workers.volume"
    ),
    _unbuilt("artifacts", {"spec.artifacts": {"emptyDir": {}}}, "spec.artifacts"),
    _unbuilt("prediction", {"spec.prediction": {"kvBlocks": 100}}, "spec.prediction"),
)
"""One or more for each row of `api.unbuilt`; a feature that is built takes its rows along."""
