"""What an iteration of a serving engine costs: a few constants, fitted or chosen.

    max(step + sequence · decoding requests + kv_token · KV tokens + prefill · prompt tokens
        + attention · (prompt tokens × tokens before them),  token · all tokens)

The first line is the linear model that fits measured steps of an A100 within 6 %; with `step`,
`kv_token` and `token` alone it is the roofline of memory and computing (`core.steps`).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StepCost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Constants in nanoseconds."""

    step: float = 0.0
    """Once an iteration: reading the weights, scheduling."""
    sequence: float = 0.0
    """For each request that decodes."""
    kv_token: float = 0.0
    """For each token of KV memory that the scheduled requests hold, in whole blocks."""
    prefill: float = 0.0
    """For each prompt token that is computed."""
    attention: float = 0.0
    """For each pair of a prompt token and a token that it attends to."""
    token: float = 0.0
    """For each scheduled token: an iteration is never shorter than its computing."""

    def duration(
        self, *, decoding: int, kv_tokens: int, prefilled: int, attended: float, tokens: int
    ) -> int:
        """Return the nanoseconds of one iteration."""
        linear = (
            self.step
            + self.sequence * decoding
            + self.kv_token * kv_tokens
            + self.prefill * prefilled
            + self.attention * attended
        )
        return round(max(linear, self.token * tokens))
