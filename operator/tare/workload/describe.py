"""The dataset in a few numbers, for an operator that never sees a prompt.

The first worker of a cell posts it when it registers; results show it beside what the server
counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.workload.dataset import lengths_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.plan.order import DatasetOrder

__all__ = ["describe"]

_SAMPLED = 10_000
"""Entries that the summary looks at: lengths of the rest are drawn from the same distribution."""


def describe(dataset: DatasetOrder) -> dict[str, Any]:
    """Return type, size and token lengths of a dataset as plain JSON."""
    lengths = [lengths_of(dataset, entry) for entry in range(min(dataset.entries, _SAMPLED))]
    return {
        "type": "synthetic",
        "entries": dataset.entries,
        "seed": dataset.seed,
        "exact": False,
        "prompt_tokens": _summary([prompt for prompt, _ in lengths]),
        "output_tokens": _summary([output for _, output in lengths]),
    }


def _summary(lengths: Sequence[int]) -> dict[str, float]:
    return {
        "min": min(lengths),
        "mean": sum(lengths) / len(lengths),
        "max": max(lengths),
    }
