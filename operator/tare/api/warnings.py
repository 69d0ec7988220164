"""What a valid spec may not mean: said beside the acceptance, never a reason to refuse.

A marker that has no place of its own, or that separates more than its target says, still gives a
measurement; whoever reads the numbers must know which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.api.spec import BenchmarkRunSpec

__all__ = ["find_warnings"]

_PATH = "spec.dataset.prompts.cacheBust"
_KNOWS_SALT = ("vllm", "sglang")


def find_warnings(spec: BenchmarkRunSpec) -> Iterator[str]:
    """Yield a sentence, with the path of the field, for each thing worth knowing."""
    bust = spec.dataset.prompts.cache_bust
    if bust.target == "none":
        return
    if bust.carrier == "salt":
        yield from _salt(spec)
    elif bust.goes_to_system and not spec.dataset.has_system:
        yield (
            f"{_PATH}.target: prompts have no system message, so the marker of {bust.target} goes "
            "to the first user turn"
        )


def _salt(spec: BenchmarkRunSpec) -> Iterator[str]:
    bust, dataset = spec.dataset.prompts.cache_bust, spec.dataset
    if spec.endpoint.server not in _KNOWS_SALT:
        yield (
            f"{_PATH}.carrier: vLLM and SGLang know cache_salt; another server may ignore it, and "
            "then nothing is isolated"
        )
    at_start = bust.target in ("system_prefix", "warmup_isolation_system") or (
        bust.target in ("first_turn_prefix", "warmup_isolation_first_turn")
        and not dataset.has_system
        and not dataset.has_context
    )
    if not at_start:
        yield (
            f"{_PATH}.carrier: a salt isolates whole prompts from their first token, although the "
            f"marker of {bust.target} would leave what stands before it shared"
        )
