"""Lengths in tokens: a number or a distribution.

`TokenLengths` is both in one form, field by field the same as `plan.order.Lengths`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from tare.api.fields import ATOMIC, NO_VARIANT, Model, Rule

__all__ = ["Distribution", "Length", "TokenLengths", "Tokens", "token_lengths"]

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


def token_lengths(given: int | Distribution) -> TokenLengths:
    """Write a length in the one form."""
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
