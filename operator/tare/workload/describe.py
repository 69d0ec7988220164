"""The dataset in a few numbers, for an operator that never sees a prompt.

The first worker of a cell posts it when it registers; results show it beside what the server
counted.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tare.workload.conversation import lengths_of
from tare.workload.outline import outline_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.plan.order import DatasetOrder
    from tare.workload.conversation import Conversations

__all__ = ["describe"]

_SAMPLED = 10_000
"""Entries that the summary looks at: lengths of the rest are drawn from the same distribution."""


def describe(dataset: DatasetOrder, texts: Conversations, *, chat: bool) -> dict[str, Any]:
    """Return type, size and token lengths of a dataset as plain JSON.

    `exact` says whether lengths are those that the server counts, but for its chat template;
    `counted_by` who counted them. What was not asked for is left out. `outline` is what the cache
    plan is made from (`plan.cache.outline`).
    """
    lengths = [lengths_of(dataset, entry) for entry in range(min(dataset.entries, _SAMPLED))]
    description: dict[str, Any] = {
        "type": "synthetic",
        "entries": dataset.entries,
        "seed": dataset.seed,
        "exact": texts.sizes.exact,
        "counted_by": str(texts.sizes.counted_by),
        "prompt_tokens": _summary([prompt for prompt, _ in lengths]),
        "output_tokens": _summary([output for _, output in lengths]),
    }
    shared = {
        "system_tokens": dataset.shared_system,
        "user_context_tokens": dataset.user_context,
        "pool_tokens": dataset.pool_length,
        "pool_size": dataset.pool_size,
    }
    description |= {name: value for name, value in shared.items() if value is not None}
    if dataset.system_prompt is not None:
        description["system_characters"] = len(dataset.system_prompt)
    description["outline"] = asdict(outline_of(dataset, texts, chat=chat))
    if texts.marker is not None:
        description["cache_bust"] = dataset.cache_bust.target
        description["marker_tokens"] = texts.sizes.marker
    return description


def _summary(lengths: Sequence[int]) -> dict[str, float]:
    return {
        "min": min(lengths),
        "mean": sum(lengths) / len(lengths),
        "max": max(lengths),
    }
