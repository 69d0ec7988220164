"""Rows about markers, prefixes and sessions."""

from __future__ import annotations

from typing import Any

from support.manifest_rows.row import DELETE, ENDPOINT, PHASE, Refuser, row

__all__ = ["PROMPTS"]

_SCHEMA, _CEL, _OPERATOR = Refuser.SCHEMA, Refuser.CEL, Refuser.OPERATOR
BUST = "spec.dataset.prompts.cacheBust"
PREFIX = "spec.dataset.prefixPrompts"
TURNS = "spec.dataset.turns"
TYPE = {f"{ENDPOINT}.type": "completions"}
ISOLATION = {BUST: {"target": "warmup_isolation_first_turn"}}


def _sessions(**fields: Any) -> dict[str, Any]:
    """Phases of sessions instead of those of the valid manifest."""
    phase = {"type": "sessions", "concurrency": 2, "sessions": 4, **fields}
    return {
        "spec.phases": [
            {"name": kind, "kind": kind, **{k: v for k, v in phase.items() if v is not None}}
            for kind in ("warmup", "profiling")
        ],
        "spec.sweep": DELETE,
    }


PROMPTS = (
    row(
        "marker of a system message that is not there",
        {BUST: {"target": "warmup_isolation_system"}},
        _CEL,
        "spec.dataset.prompts",
        "sharedSystemLength or systemPrompt",
        "warmup_isolation_first_turn",
    ),
    *(
        row(
            f"marker of a system message beside {name}",
            {BUST: {"target": "warmup_isolation_system"}, PREFIX: prefix},
            _CEL,
            "spec.dataset.prompts",
            "these prompts have none",
        )
        for name, prefix in (
            ("a user context", {"userContextLength": 64}),
            ("a pool", {"poolSize": 2, "poolLength": 64}),
        )
    ),
    row(
        "isolation of a warm-up that is not there",
        {**ISOLATION, "spec.phases[0].kind": "profiling"},
        _CEL,
        "spec.phases",
        "add a phase of kind: warmup",
    ),
    row(
        "isolation of sessions that span both phases",
        {**ISOLATION, f"{PHASE}.type": "agenticReplay"},
        _CEL,
        "spec.phases",
        "agenticReplay",
        "system_* or first_turn_*",
    ),
    row(
        "system prompt that the marker fills",
        {BUST: {"target": "system_prefix"}, PREFIX: {"sharedSystemLength": 16}},
        _CEL,
        "spec.dataset.prefixPrompts",
        "no room for the marker",
    ),
    row(
        "question that the marker fills",
        {BUST: {"target": "first_turn_suffix"}, "spec.dataset.prompts.isl": 16},
        _OPERATOR,
        "spec.dataset.prompts",
        "no room for the marker",
    ),
    row(
        "question that a marker without a system message fills",
        {BUST: {"target": "system_suffix"}, "spec.dataset.prompts.isl": {"min": 4, "max": 99}},
        _OPERATOR,
        "spec.dataset.prompts",
        "make it longer",
    ),
    row(
        "two salts",
        {
            BUST: {"target": "system_prefix", "carrier": "salt"},
            f"{ENDPOINT}.extraBody": {"cache_salt": "mine"},
        },
        _OPERATOR,
        "spec.dataset",
        "remove one of the two",
    ),
    row(
        "unknown target of a marker",
        {BUST: {"target": "first_turn"}},
        _SCHEMA,
        f"{BUST}.target",
        "'first_turn'",
        "first_turn_prefix",
    ),
    row(
        "two system prompts",
        {PREFIX: {"sharedSystemLength": 64, "systemPrompt": "Be brief."}},
        _CEL,
        f"{PREFIX}.systemPrompt",
        "keep one of them",
    ),
    row(
        "system prompt from two places",
        {
            PREFIX: {
                "systemPrompt": "Be brief.",
                "systemPromptFrom": {"configMapKeyRef": {"name": "prompts", "key": "brief"}},
            }
        },
        _CEL,
        f"{PREFIX}.systemPrompt",
        "keep one of them",
    ),
    row(
        "system prompt from nowhere",
        {PREFIX: {"systemPromptFrom": {}}},
        _SCHEMA,
        f"{PREFIX}.systemPromptFrom.configMapKeyRef",
        "missing",
    ),
    row(
        "empty system prompt",
        {PREFIX: {"systemPrompt": ""}},
        _SCHEMA,
        f"{PREFIX}.systemPrompt",
        "empty",
    ),
    row(
        "system prompt that no environment holds",
        {PREFIX: {"systemPrompt": "é" * 40_000}},
        _OPERATOR,
        f"{PREFIX}.systemPrompt",
        "at most 65536 bytes",
    ),
    row(
        "pool without a length",
        {PREFIX: {"poolSize": 4}},
        _CEL,
        f"{PREFIX}.poolSize",
        "go together",
    ),
    row(
        "pool beside a system prompt",
        {PREFIX: {"poolSize": 4, "poolLength": 64, "systemPrompt": "Be brief."}},
        _CEL,
        f"{PREFIX}.poolSize",
        "keep one kind of prefix",
    ),
    row(
        "pool beside a user context",
        {PREFIX: {"poolSize": 4, "poolLength": 64, "userContextLength": 64}},
        _CEL,
        f"{PREFIX}.poolSize",
        "keep one kind of prefix",
    ),
    *(
        row(
            f"{field} of a completion",
            {**TYPE, PREFIX: {field: value}},
            _CEL,
            "spec.dataset",
            "poolSize: 1",
        )
        for field, value in (("sharedSystemLength", 64), ("userContextLength", 64))
    ),
    row(
        "turns of a completion",
        {**TYPE, TURNS: {"mean": 2.0}, **_sessions()},
        _CEL,
        "spec.dataset",
        "a completion has one turn",
    ),
    row(
        "turns in phases of single requests",
        {TURNS: {"continueProbability": 0.5}},
        _CEL,
        "spec.phases",
        "type: sessions",
    ),
    row(
        "number of turns said twice",
        {TURNS: {"mean": 2.0, "continueProbability": 0.5}, **_sessions()},
        _CEL,
        f"{TURNS}.continueProbability",
        "keep one",
    ),
    row(
        "turns that never end",
        {TURNS: {"continueProbability": 1.0}, **_sessions()},
        _SCHEMA,
        f"{TURNS}.continueProbability",
        "0.99",
    ),
    row(
        "sessions that end by requests",
        _sessions(requests=8),
        _CEL,
        "spec.phases[0].requests",
        "use sessions",
    ),
    row(
        "sessions without an end",
        _sessions(sessions=None),
        _CEL,
        "spec.phases[0]",
        "ends by sessions",
    ),
    row(
        "single requests that end by sessions",
        {f"{PHASE}.sessions": 8},
        _CEL,
        f"{PHASE}.sessions",
        "use requests",
    ),
)
