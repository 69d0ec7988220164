"""`spec.dataset`: what the prompts are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from tare.api import names
from tare.api.fields import MAX_INT32, Duration, Model, Rule
from tare.api.lengths import Length, TokenLengths, token_lengths
from tare.api.prefixes import SYSTEM_FIELDS, PrefixPrompts, given
from tare.api.quantity import parse_duration

if TYPE_CHECKING:
    from tare.api.endpoint import ConfigMapKey

__all__ = ["CacheBust", "Dataset", "Prompts", "Turns"]

_SYSTEM_TARGETS = ("system_prefix", "system_suffix", "warmup_isolation_system")


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
    """Where the marker goes, and whether it isolates sessions or the warm-up.

    system and first_turn: one for each session, the same in all phases. warmup_isolation: the same
    one in every prompt of a warm-up, none in profiling.
    """
    scope: Literal["Trajectory", "TrajectoryAndPhase"] = "Trajectory"
    """TrajectoryAndPhase also isolates the phases from each other, which warmup_isolation does
    by itself."""
    carrier: Literal["text", "salt"] = "text"
    """Send the marker as text, or as cache_salt (vLLM, SGLang), which isolates whole prompts."""

    @property
    def goes_to_system(self) -> bool:
        """Whether it goes to the system message where there is one."""
        return self.target in _SYSTEM_TARGETS

    @property
    def isolates_warmup(self) -> bool:
        """Whether it marks the warm-up only."""
        return self.target in names.ISOLATION_TARGETS

    @property
    def tokens(self) -> int:
        """What the marker takes of a prompt at most; 0 for none."""
        if self.target == "none" or self.carrier == "salt":
            return 0
        return names.MARKER_TOKENS["warmup" if self.isolates_warmup else "rid"]


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
        return token_lengths(self.isl)

    @property
    def output_lengths(self) -> TokenLengths:
        """`osl` in one form."""
        return token_lengths(self.osl)


class Turns(Model):
    """Sessions of several turns."""

    RULES = (
        Rule(
            field="continueProbability",
            holds=lambda turns: turns.continue_probability is None or turns.mean == 1,
            cel="!has(self.continueProbability) || !has(self.mean) || self.mean == 1.0",
            message="mean and continueProbability both say how many turns there are; keep one",
        ),
    )

    mean: Annotated[float, Field(ge=1, le=1000)] = 1
    """Number of turns of a session; with a fraction some have one more than others."""
    turn_delay: Duration | None = None
    """Think time from an answer to the next turn, as 2s; none when unset."""
    continue_probability: Annotated[float, Field(ge=0, le=0.99)] | None = None
    """Chance of another turn after each, instead of mean; 1,000 turns at most."""

    @property
    def several(self) -> bool:
        """Whether a session may have more than one turn."""
        return self.mean > 1 or bool(self.continue_probability)

    @property
    def delay_seconds(self) -> float:
        """`turnDelay` in seconds."""
        return parse_duration(self.turn_delay) if self.turn_delay is not None else 0.0


def _shortest(lengths: TokenLengths) -> float:
    """Shortest text of a distribution; a normal one is judged by its mean."""
    if lengths.values:
        return min(lengths.values)
    return lengths.value or lengths.mean or lengths.min or 0


def _room_in_system(dataset: Dataset) -> bool:
    bust, prefix = dataset.prompts.cache_bust, dataset.prefix_prompts
    if prefix is None or prefix.shared_system_length is None or not bust.goes_to_system:
        return True
    return prefix.shared_system_length > bust.tokens


def _room_in_question(dataset: Dataset) -> bool:
    bust = dataset.prompts.cache_bust
    if bust.goes_to_system and dataset.has_system:
        return True
    return bust.tokens == 0 or _shortest(dataset.prompts.input_lengths) > bust.tokens


_BUST = "self.prompts.cacheBust"
_TARGET = f"{_BUST}.target"
_HAS_TARGET = f"has(self.prompts) && has({_BUST}) && has({_TARGET})"


class Dataset(Model):
    """The prompts."""

    RULES = (
        Rule(
            field="prompts",
            holds=lambda dataset: (
                dataset.type != "synthetic"
                or dataset.prompts.cache_bust.target != "warmup_isolation_system"
                or dataset.has_system
            ),
            cel=f"!({_HAS_TARGET}) || {_TARGET} != 'warmup_isolation_system' || "
            "(has(self.type) && self.type != 'synthetic') || (has(self.prefixPrompts) && "
            f"{given(*(f'prefixPrompts.{field}' for field in SYSTEM_FIELDS))} > 0)",
            message="warmup_isolation_system marks a system message, and these prompts have none; "
            "set prefixPrompts.sharedSystemLength or systemPrompt, or use "
            "warmup_isolation_first_turn",
        ),
        Rule(
            field="prefixPrompts",
            holds=_room_in_system,
            cel=f"!({_HAS_TARGET}) || !has(self.prefixPrompts) || "
            "!has(self.prefixPrompts.sharedSystemLength) || "
            f"(has({_BUST}.carrier) && {_BUST}.carrier == 'salt') || "
            f"!({_TARGET} in {list(_SYSTEM_TARGETS)}) || "
            "self.prefixPrompts.sharedSystemLength > "
            f"({_TARGET} in {list(names.ISOLATION_TARGETS)} ? {names.MARKER_TOKENS['warmup']} : "
            f"{names.MARKER_TOKENS['rid']})",
            message="sharedSystemLength has no room for the marker of cacheBust, which takes up to "
            f"{names.MARKER_TOKENS['rid']} tokens of it; make it longer",
        ),
        Rule(
            field="prompts",
            holds=_room_in_question,
            message="isl has no room for the marker of cacheBust, which takes up to "
            f"{names.MARKER_TOKENS['rid']} tokens of a first question; make it longer",
        ),
    )

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

    @property
    def system_prompt_source(self) -> ConfigMapKey | None:
        """Where the system prompt comes from, when it comes from a ConfigMap."""
        prefix = self.prefix_prompts
        source = prefix.system_prompt_from if prefix is not None else None
        return source.config_map_key_ref if source is not None else None

    @property
    def has_system(self) -> bool:
        """Whether conversations begin with a system message."""
        return self.prefix_prompts is not None and self.prefix_prompts.has_system

    @property
    def has_context(self) -> bool:
        """Whether a context stands before the first question."""
        return (
            self.prefix_prompts is not None and self.prefix_prompts.user_context_length is not None
        )

    @property
    def has_turns(self) -> bool:
        """Whether a session may have more than one turn."""
        return self.turns is not None and self.turns.several
