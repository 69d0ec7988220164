"""The requests of a work order's dataset, ready to be sent.

Only the entries that this worker can reach are made: a worker's start-up is part of the product.
Each is encoded once, with the marker of the session's first replay in it; where another replay or
another phase has another digest, the sender writes that over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import orjson

from tare.plan.markers import MarkerKind, benchmark_id, digest, trace_id
from tare.plan.schedule import prompt_entry, worker_share
from tare.workload.body import request_body
from tare.workload.conversation import Conversations, DatasetError, lengths_of
from tare.workload.sizes import by_words
from tare.workload.synthetic import MAX_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tare.plan.markers import Marker
    from tare.plan.order import PhaseKind, PhaseOrder, WorkOrder
    from tare.workload.sizes import TokenSizes

__all__ = [
    "DatasetError",
    "PreparedRequest",
    "Signer",
    "conversations",
    "load",
    "reachable_entries",
    "spelled",
]

_WORTH_SHARING = 1024
"""Bytes of a system prompt that are kept once for all requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """One entry as it goes over the wire."""

    parts: tuple[bytes, ...]
    """The body; a part that all requests share is one object."""
    max_tokens: int
    """Output tokens that it asks for."""
    digest_at: int | None = None
    """Where in the body the digest of its trajectory stands."""

    @property
    def body(self) -> bytes:
        """The body in one piece."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """The digests of one phase."""

    benchmark: str
    seed: int
    entries: int

    @classmethod
    def of(cls, order: WorkOrder, phase: PhaseOrder) -> Self:
        """Return that of a phase of an order."""
        dataset = order.dataset
        return cls(benchmark=benchmark_id(order, phase), seed=dataset.seed, entries=dataset.entries)

    @classmethod
    def first(cls, order: WorkOrder, kind: PhaseKind) -> Self:
        """Return that of the first phase of a kind, which `load` signs for."""
        of_kind = [phase for phase in order.phases if phase.kind == kind]
        return cls.of(order, (of_kind or order.phases)[0])

    def digest(self, session: int) -> str:
        """Return the digest of a session, by its number in the phase."""
        recycle_pass, entry = divmod(session, self.entries)
        return digest(
            self.benchmark,
            recycle_pass=recycle_pass,
            trajectory_index=entry,
            trace=trace_id(self.seed, entry),
        )


def conversations(order: WorkOrder, sizes: TokenSizes | None = None) -> Conversations:
    """Return the texts of a dataset; without sizes a word is taken for a token.

    Raises:
        DatasetError: more entries than can be told apart.
    """
    dataset = order.dataset
    if not 1 <= dataset.entries <= MAX_ENTRIES:
        raise DatasetError(
            f"dataset.entries: {dataset.entries} is not allowed; give 1 to {MAX_ENTRIES}"
        )
    texts = Conversations(dataset, sizes or by_words(None))
    return texts if sizes is not None else Conversations(dataset, by_words(texts.marker))


def load(
    order: WorkOrder,
    index: int,
    sizes: TokenSizes | None = None,
    *,
    kind: PhaseKind = "profiling",
) -> Mapping[int, PreparedRequest]:
    """Make the requests that worker `index` may send in phases of a kind, by entry.

    Raises:
        DatasetError: more entries than can be told apart, or texts too short to differ.
    """
    texts = conversations(order, sizes)
    signer = Signer.first(order, kind)
    marker = texts.marker if texts.marker and texts.marker.stands_in(kind) else None
    as_text = marker is not None and marker.carrier == "text"
    shared = orjson.dumps(texts.system(marked=as_text))[1:-1]
    requests: dict[int, PreparedRequest] = {}
    phases = [phase for phase in order.phases if texts.alike or phase.kind == kind]
    for entry in reachable_entries(order, index, phases):
        requests[entry] = _prepare(order, texts, entry, marker, signer.digest(entry), shared)
    return requests


def _prepare(
    order: WorkOrder,
    texts: Conversations,
    entry: int,
    marker: Marker | None,
    digest: str,
    shared: bytes,
) -> PreparedRequest:
    text, salt = spelled(marker, digest)
    chat = order.target.type == "chat"
    max_tokens = lengths_of(order.dataset, entry)[1]
    body = request_body(
        order.target,
        prompt=texts.messages(entry, text) if chat else texts.prompt(entry, text),
        max_tokens=max_tokens,
        salt=salt,
    )
    signed = marker is not None and marker.kind is MarkerKind.RID
    return PreparedRequest(
        parts=_parts(body, shared),
        max_tokens=max_tokens,
        # Nothing else in the body can hold 48 bits of a hash that includes the run's UID.
        digest_at=body.index(digest.encode()) if signed else None,
    )


def _parts(body: bytes, shared: bytes) -> tuple[bytes, ...]:
    """Cut a long system prompt out, so that thousands of requests hold it once."""
    if len(shared) < _WORTH_SHARING:
        return (body,)
    before, found, after = body.partition(shared)
    return (before, shared, after) if found else (body,)


def spelled(marker: Marker | None, digest: str) -> tuple[str | None, str | None]:
    """Return a marker as text of the prompt and as salt; it is carried by one of the two."""
    if marker is None:
        return None, None
    if marker.carrier == "salt":
        return None, marker.salt(digest)
    return marker.text(digest), None


def reachable_entries(
    order: WorkOrder, index: int, phases: Iterable[PhaseOrder] | None = None
) -> Iterable[int]:
    """Return the entries that worker `index` needs: its own, or all when phases go round them."""
    entries = order.dataset.entries
    needed: set[int] = set()
    for phase in order.phases if phases is None else phases:
        share = worker_share(phase, index, order.workers)
        if share.total is None or share.total > entries:
            return range(entries)
        needed.update(prompt_entry(number, entries) for number in share.numbers())
    return sorted(needed)
