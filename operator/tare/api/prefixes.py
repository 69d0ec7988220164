"""`spec.dataset.prefixPrompts`: text that prompts share.

A system prompt stands in a message of its own, a context in one before the question, a prefix of
the pool in the question itself. Where it stands decides what a marker beside it leaves shared.
"""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field, StringConstraints

from tare.api.endpoint import ConfigMapKey  # noqa: TC001 - read by pydantic
from tare.api.fields import Model, Rule
from tare.api.lengths import Tokens  # noqa: TC001 - read by pydantic

__all__ = [
    "MAX_PROMPT_BYTES",
    "SYSTEM_FIELDS",
    "PrefixPrompts",
    "SystemPromptSource",
    "given",
    "is_short_enough",
]

MAX_PROMPT_BYTES = 65_536
"""Of a system prompt as JSON: half of what Linux allows one environment variable."""
SYSTEM_FIELDS = ("sharedSystemLength", "systemPrompt", "systemPromptFrom")
"""Each of them fills the system message."""


def given(*paths: str) -> str:
    """Write in CEL how many of these fields are given."""
    return f"[{', '.join(f'has(self.{path})' for path in paths)}].filter(x, x).size()"


class SystemPromptSource(Model):
    """Where a system prompt comes from."""

    config_map_key_ref: ConfigMapKey
    """An entry of a ConfigMap in the run's namespace; the operator reads it before each trial."""


class PrefixPrompts(Model):
    """Text that prompts share."""

    RULES = (
        Rule(
            field="systemPrompt",
            holds=lambda prefix: sum(text is not None for text in prefix.systems) <= 1,
            cel=f"{given(*SYSTEM_FIELDS)} <= 1",
            message="sharedSystemLength, systemPrompt and systemPromptFrom fill the same system "
            "message; keep one of them",
        ),
        Rule(
            field="poolSize",
            holds=lambda prefix: (prefix.pool_size is None) == (prefix.pool_length is None),
            cel="has(self.poolSize) == has(self.poolLength)",
            message="poolSize and poolLength go together: how many prefixes, and how long each is",
        ),
        Rule(
            field="poolSize",
            holds=lambda prefix: (
                prefix.pool_size is None
                or (not prefix.has_system and prefix.user_context_length is None)
            ),
            cel=f"!has(self.poolSize) || {given(*SYSTEM_FIELDS, 'userContextLength')} == 0",
            message="a pool of prefixes goes with no system prompt and no user context; keep one "
            "kind of prefix",
        ),
        Rule(
            field="systemPrompt",
            holds=lambda prefix: (
                prefix.system_prompt is None or is_short_enough(prefix.system_prompt)
            ),
            message=f"a system prompt has at most {MAX_PROMPT_BYTES} bytes of JSON, since workers "
            "get it in their environment; shorten it, or use sharedSystemLength",
        ),
    )

    shared_system_length: Tokens | None = None
    """Tokens of a system prompt that all sessions share."""
    system_prompt: Annotated[str, StringConstraints(min_length=1, max_length=65_536)] | None = None
    """A system prompt, word by word; on top of isl."""
    system_prompt_from: SystemPromptSource | None = None
    """The same, from a ConfigMap."""
    user_context_length: Tokens | None = None
    """Tokens of a context of each session, sent as a message before its first question."""
    pool_size: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of prefixes, one of which begins each session's first question."""
    pool_length: Tokens | None = None
    """Tokens of each of them; on top of isl."""

    @property
    def systems(self) -> tuple[object, ...]:
        """What may fill the system message; None for what is not given."""
        return (self.shared_system_length, self.system_prompt, self.system_prompt_from)

    @property
    def has_system(self) -> bool:
        """Whether conversations begin with a system message."""
        return any(text is not None for text in self.systems)


def is_short_enough(prompt: str) -> bool:
    """Whether a system prompt fits into the workers' environment."""
    return len(json.dumps(prompt, ensure_ascii=False).encode()) <= MAX_PROMPT_BYTES
