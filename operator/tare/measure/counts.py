"""Names of the counts that a worker keeps for each phase: keys of `PhaseResult.counts`.

The window is the first `PhaseResult.seconds` after the gate. What happens later, while the last
answers drain, is counted but belongs to no rate.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Count"]


class Count(StrEnum):
    """One key of `PhaseResult.counts`; a missing key means 0."""

    ISSUED = "issued"
    """Requests sent; the denominator of every share of failures and of goodput."""
    OK = "ok"
    FAILED = "failed"
    """Ended without success: errors, incomplete ones and time-outs together."""
    INCOMPLETE = "incomplete"
    """Part of `failed`: the stream broke off."""
    TIMEOUT = "timeout"
    """Part of `failed`."""
    CANCELLED = "cancelled"
    """In flight when the grace period or the run ended, or planned so; not part of `failed`."""
    PLANNED_CANCEL = "planned_cancel"
    """Part of `cancelled`: chosen by the phase's `cancelShare`; in no share of failures."""
    UNSENT = "unsent"
    """Due and never sent, so not `issued`: `maxConcurrency` held them back to the phase's end."""
    EMPTY_OUTPUT = "empty_output"
    """Part of `ok`: an answer without a token."""
    NOT_STREAMED = "not_streamed"
    """Part of `ok`: streaming was asked for and the answer came in one piece."""
    MISSING_DONE = "missing_done"
    """Part of `ok`: a finish reason, but no `[DONE]`."""
    OUTPUT_LENGTH_MISMATCH = "output_length_mismatch"
    """Part of `ok`: another number of output tokens than asked for."""
    TPOT_UNDEFINED = "tpot_undefined"
    """Part of `ok`: one output token or one arrival, which says nothing about the pace."""
    GOOD = "good"
    """Part of `ok`: met every goodput limit (`measure.goodput`)."""
    OK_IN_WINDOW = "ok_in_window"
    """Part of `ok`: the last token arrived in the window."""
    OUTPUT_TOKENS_IN_WINDOW = "output_tokens_in_window"
    """Output tokens that arrived in the window, whatever became of their request."""
    PROMPT_TOKENS_IN_WINDOW = "prompt_tokens_in_window"
    """Prompt tokens of requests whose first token arrived in the window."""
