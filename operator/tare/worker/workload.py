"""What this worker sends in each phase of its order, made ready before the load begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.worker.prompts import Prompts, SinglePrompts
from tare.worker.sessions import Sessions
from tare.workload.dataset import Signer, conversations, load
from tare.workload.describe import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.plan.order import PhaseKind, PhaseOrder, WorkOrder
    from tare.plan.shares import Share
    from tare.workload.dataset import PreparedRequest
    from tare.workload.sizes import TokenSizes

__all__ = ["Workload"]


class Workload:
    """The prompts of all phases of one worker."""

    def __init__(self, order: WorkOrder, index: int, sizes: TokenSizes | None) -> None:
        """Make them.

        Raises:
            DatasetError: they cannot be made as ordered.
        """
        self._order = order
        self._texts = conversations(order, sizes)
        self._prepared: dict[PhaseKind, tuple[Signer, Mapping[int, PreparedRequest]]] = {}
        for phase in order.phases:
            if phase.type != "sessions" and phase.kind not in self._prepared:
                self._prepared[phase.kind] = self._load(index, sizes, phase.kind)
        self.description: dict[str, Any] = describe(
            order.dataset, self._texts, chat=order.target.type == "chat"
        )

    def prompts(self, phase: PhaseOrder) -> Prompts:
        """Return the requests of a phase whose prompts have one turn."""
        signed, requests = self._prepared[phase.kind]
        return SinglePrompts(requests, signer=Signer.of(self._order, phase), signed=signed)

    def sessions(self, phase: PhaseOrder, share: Share) -> Sessions | None:
        """Return the sessions of a phase; None when it has none."""
        if phase.type != "sessions":
            return None
        return Sessions(self._order, phase, share, self._texts)

    def _load(
        self, index: int, sizes: TokenSizes | None, kind: PhaseKind
    ) -> tuple[Signer, Mapping[int, PreparedRequest]]:
        """Make the requests of a kind of phases, or take those of the other if they are alike."""
        if self._texts.alike:
            for prepared in self._prepared.values():
                return prepared
        return Signer.first(self._order, kind), load(self._order, index, sizes, kind=kind)
