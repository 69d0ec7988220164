"""The requests of a work order's dataset, ready to be sent.

Only the entries that this worker can reach are made: a worker's start-up is part of the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.plan.lengths import draw
from tare.plan.schedule import prompt_entry, worker_share
from tare.workload.body import request_body
from tare.workload.synthetic import MAX_ENTRIES, SyntheticPrompts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tare.plan.order import DatasetOrder, WorkOrder

__all__ = ["DatasetError", "PreparedRequest", "lengths_of", "load", "reachable_entries"]


class DatasetError(ValueError):
    """A dataset cannot be made as ordered; the message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """One entry as it goes over the wire."""

    body: bytes
    max_tokens: int
    """Output tokens that it asks for."""


def load(order: WorkOrder, index: int) -> Mapping[int, PreparedRequest]:
    """Make the requests that worker `index` may send, by entry.

    Raises:
        DatasetError: more entries than can be told apart, or prompts too short to differ.
    """
    dataset = order.dataset
    if not 1 <= dataset.entries <= MAX_ENTRIES:
        raise DatasetError(
            f"dataset.entries: {dataset.entries} is not allowed; give 1 to {MAX_ENTRIES}"
        )
    prompts = SyntheticPrompts(dataset.seed)
    requests: dict[int, PreparedRequest] = {}
    for entry in reachable_entries(order, index):
        words, tokens = lengths_of(dataset, entry)
        if not prompts.distinct(entry, words):
            raise DatasetError(
                f"dataset.prompts.isl: {words} tokens are too few for {dataset.entries} distinct "
                "prompts; use longer prompts or fewer entries"
            )
        body = request_body(order.target, prompt=prompts.text(entry, words), max_tokens=tokens)
        requests[entry] = PreparedRequest(body=body, max_tokens=tokens)
    return requests


def lengths_of(dataset: DatasetOrder, entry: int) -> tuple[int, int]:
    """Return the input and output tokens of an entry.

    Raises:
        DatasetError: a length below one token.
    """
    lengths = []
    for purpose, distribution in (("isl", dataset.isl), ("osl", dataset.osl)):
        tokens = draw(distribution, seed=dataset.seed, entry=entry, purpose=purpose)
        if tokens < 1:
            raise DatasetError(
                f"dataset.prompts.{purpose}: entry {entry} would have {tokens} tokens; "
                "give lengths of 1 or more"
            )
        lengths.append(tokens)
    return lengths[0], lengths[1]


def reachable_entries(order: WorkOrder, index: int) -> Iterable[int]:
    """Return the entries that worker `index` needs: its own, or all when phases go round them."""
    entries = order.dataset.entries
    needed: set[int] = set()
    for phase in order.phases:
        share = worker_share(phase, index, order.workers)
        if share.total is None or share.total > entries:
            return range(entries)
        needed.update(prompt_entry(number, entries) for number in share.numbers())
    return sorted(needed)
