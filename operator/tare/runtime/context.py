"""What all drivers of one operator process share."""

from __future__ import annotations

from dataclasses import dataclass, field

from tare.endpoint.client import Control
from tare.kube.port import Cluster
from tare.results.store import ResultStore
from tare.runtime.book import AttemptBook
from tare.runtime.claims import Claims
from tare.runtime.settings import Settings
from tare.telemetry.clock import Clock
from tare.telemetry.metrics import Metrics

__all__ = ["Context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Services and registries of the process."""

    settings: Settings
    cluster: Cluster
    control: Control
    store: ResultStore
    metrics: Metrics
    clock: Clock
    claims: Claims
    """Who may measure which target."""
    operator_id: str
    """Written into `status.operator` of every run that this process drives."""
    books: dict[str, AttemptBook] = field(default_factory=dict)
    """Attempt books by run UID."""
