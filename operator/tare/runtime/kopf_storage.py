"""Kopf's storages, without what only handlers of changes need.

For each event of each object Kopf copies the object three times to find out what changed since a
handler saw it last. There are no such handlers here, and with 400 worker pods the copies were half
of the operator's CPU time. What is left of the progress is the annotation by which Kopf wakes
itself up while it waits for a daemon to end.
"""

from __future__ import annotations

from typing import Any

import kopf

from tare.telemetry.overriding import override

__all__ = ["NoDiffs", "PlainProgress"]


class NoDiffs(kopf.DiffBaseStorage):
    """Remembers no earlier state: nothing asks what changed."""

    @override
    def build(self, **_: Any) -> kopf.BodyEssence:
        """Take nothing from an object."""
        return kopf.BodyEssence()

    @override
    def fetch(self, **_: Any) -> None:
        """Find nothing on an object."""

    @override
    def store(self, **_: Any) -> None:
        """Leave nothing on an object."""


class PlainProgress(kopf.AnnotationsProgressStorage):
    """Progress in annotations, of which an empty essence holds none."""

    @override
    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return it as it is, uncopied."""
        return essence
