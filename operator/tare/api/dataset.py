"""`spec.dataset`: what the prompts are.

Lengths are a number or a distribution; `TokenLengths` is both in one form, field by field the same
as `plan.order.Lengths`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from tare.api.fields import ATOMIC, MAX_INT32, NO_VARIANT, Duration, Model, Rule

__all__ = [
    "CacheBust",
    "Dataset",
    "Distribution",
    "Length",
    "PrefixPrompts",
    "Prompts",
    "TokenLengths",
    "Turns",
]

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]


def _form(lengths: Distribution) -> frozenset[str]:
    """Names of the fields that are given."""
    given = {
        "mean": lengths.mean,
        "stddev": lengths.stddev,
        "min": lengths.min,
        "max": lengths.max,
        "values": lengths.values,
        "weights": lengths.weights,
    }
    return frozenset(name for name, value in given.items() if value is not None)


_FORMS = tuple(
    frozenset(names)
    for names in (
        {"mean"},
        {"mean", "stddev"},
        {"min", "max"},
        {"values"},
        {"values", "weights"},
    )
)


class Distribution(Model):
    """A distribution of lengths in tokens, drawn by prompt and seed."""

    RULES = (
        Rule(
            holds=lambda lengths: _form(lengths) in _FORMS,
            message="give one of a number, {mean, stddev}, {min, max} and {values, weights}",
        ),
        Rule(
            field="min",
            holds=lambda lengths: (
                lengths.min is None or lengths.max is None or lengths.min <= lengths.max
            ),
            message="min is larger than max; swap them",
        ),
        Rule(
            field="weights",
            holds=lambda lengths: (
                lengths.weights is None
                or lengths.values is None
                or (len(lengths.weights) == len(lengths.values) and sum(lengths.weights) > 0)
            ),
            message="give one weight for each of values, at least one of them above 0",
        ),
    )

    mean: Annotated[float, Field(ge=1, le=10_000_000)] | None = None
    """Mean of a normal distribution; draws below one token are one."""
    stddev: Annotated[float, Field(ge=0, le=10_000_000)] | None = None
    """Its standard deviation; 0 when unset."""
    min: Tokens | None = None
    """Smallest value of a uniform distribution."""
    max: Tokens | None = None
    """Its largest value, included."""
    values: (
        Annotated[tuple[Tokens, ...], Field(min_length=1, max_length=256, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """Lengths to choose from."""
    weights: (
        Annotated[
            tuple[Annotated[float, Field(ge=0)], ...],
            Field(min_length=1, max_length=256, json_schema_extra=ATOMIC),
        ]
        | None
    ) = None
    """How often each of values is chosen; all alike when unset."""


def _length_tag(value: object) -> str | None:
    match value:
        case bool():
            return None
        case int() | float():
            return "<number>"
        case dict() | Distribution():
            return "<object>"
        case _:
            return None


Length = Annotated[
    Annotated[Tokens, Tag("<number>")] | Annotated[Distribution, Tag("<object>")],
    Discriminator(
        _length_tag,
        custom_error_type=NO_VARIANT,
        custom_error_message="write a number of tokens, {mean, stddev}, {min, max} "
        "or {values, weights}",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLengths:
    """A number or a distribution of tokens in one form."""

    value: int | None = None
    mean: float | None = None
    stddev: float = 0.0
    min: int | None = None
    max: int | None = None
    values: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()


def _lengths(given: int | Distribution) -> TokenLengths:
    if isinstance(given, int):
        return TokenLengths(value=given)
    return TokenLengths(
        mean=given.mean,
        stddev=given.stddev or 0.0,
        min=given.min,
        max=given.max,
        values=given.values or (),
        weights=given.weights or (),
    )


class CacheBust(Model):
    """A marker in the prompts that keeps the server's prefix cache from matching."""

    target: Literal[
        "none",
        "system_prefix",
        "system_suffix",
        "first_turn_prefix",
        "first_turn_suffix",
        "warmup_isolation_system",
        "warmup_isolation_first_turn",
    ] = "none"
    """Where the marker goes, and whether it isolates prompts or the warm-up."""
    scope: Literal["Trajectory", "TrajectoryAndPhase"] = "Trajectory"
    """TrajectoryAndPhase also isolates the phases from each other."""
    carrier: Literal["text", "salt"] = "text"
    """Send the marker as text, or as cache_salt (vLLM, SGLang)."""


class Prompts(Model):
    """Length of prompts and answers."""

    isl: Length = 512
    """Input tokens of a prompt: a number, {mean, stddev}, {min, max} or {values, weights}."""
    osl: Length = 128
    """Output tokens asked for: a number, {mean, stddev}, {min, max} or {values, weights}."""
    cache_bust: CacheBust = CacheBust()
    """Keep prompts from hitting the server's prefix cache."""

    @property
    def input_lengths(self) -> TokenLengths:
        """`isl` in one form."""
        return _lengths(self.isl)

    @property
    def output_lengths(self) -> TokenLengths:
        """`osl` in one form."""
        return _lengths(self.osl)


class PrefixPrompts(Model):
    """Text that prompts share."""

    shared_system_length: Tokens | None = None
    """Tokens of a system prompt that all sessions share."""
    system_prompt: Annotated[str, StringConstraints(min_length=1, max_length=65_536)] | None = None
    """A system prompt, word by word."""
    user_context_length: Tokens | None = None
    """Tokens of a context of each session, sent before its first question."""
    pool_size: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of prefixes from which each prompt takes one."""
    pool_length: Tokens | None = None
    """Tokens of each of them."""


class Turns(Model):
    """Sessions of several turns."""

    mean: Annotated[float, Field(ge=1, le=1000)] = 1
    """Mean number of turns of a session."""
    turn_delay: Duration | None = None
    """Think time between two turns, as 2s."""
    continue_probability: Annotated[float, Field(ge=0, le=1)] | None = None
    """Chance of another turn after each."""


class Dataset(Model):
    """The prompts."""

    type: Literal["synthetic", "file", "trace"] = "synthetic"
    """Where the prompts come from."""
    entries: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Number of distinct prompts; unset: enough that none repeats in a phase."""
    prompts: Prompts = Prompts()
    """Length of prompts and answers."""
    prefix_prompts: PrefixPrompts | None = None
    """Text that prompts share."""
    turns: Turns | None = None
    """Sessions of several turns."""
    seed: Annotated[int, Field(ge=0, le=MAX_INT32)] = 0
    """The same seed gives the same prompts, for any number of workers."""
