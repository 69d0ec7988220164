"""Recognising events saves parsing them and changes no record, whatever came before.

Several servers answer one client, their answers mingle, reads end anywhere; each answer is read
twice, by a client that recognises what it learned from all of them and by one that parses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tare.worker.answer import Answer
from tare.worker.failure import CLOSED, RESET, Failure
from tare.worker.record import Record
from tare.worker.template import Patterns

SSE = {b"content-type": b"text/event-stream"}
# Some are part of others, some stand in other places of an event, some are not plain.
IDS = ["c", "cc", "chatcmpl-1", "chatcmpl-12", "stop", "content", "null", "0", "id", "x y", "", "é"]
TEXTS = ["a", "cc", "stop", '"id":"c"', "\\", '"', "\n", "é🙂", "", "~", "null", "[DONE]", "a" * 40]
REPERTOIRE = 12
"""Different events of a server, but for the id: what answers have in common."""
ENDS = [None, None, Failure(CLOSED, "closed"), Failure(RESET, "reset by peer")]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a server writes its events."""

    model: str
    keys: list[str]
    style: dict[str, Any]
    line_end: bytes
    field: bytes
    id_last: bool
    seed: int

    @classmethod
    def drawn(cls, random: Random, model: str) -> Dialect:
        return cls(
            model=model,
            keys=random.choice([["content"], ["text"], ["reasoning_content", "content"]]),
            style=random.choice([{"separators": (",", ":")}, {"ensure_ascii": False}, {}]),
            line_end=random.choice([b"\n", b"\n", b"\n", b"\r\n", b"\r"]),
            field=random.choice([b"data: ", b"data: ", b"data:"]),
            id_last=random.random() < 0.2,
            seed=random.randrange(2**32),
        )

    def stream(self, random: Random) -> list[bytes]:
        answer_id = random.choice([*IDS, f"chatcmpl-{random.randrange(1000)}"])
        drawn = [self.seed + random.randrange(REPERTOIRE) for _ in range(random.randrange(1, 9))]
        events = [self._event(Random(seed), answer_id) for seed in drawn]  # noqa: S311
        if random.random() < 0.8:
            events.append(b"data: [DONE]" + self.line_end * 2)
        return events

    def _event(self, random: Random, answer_id: str) -> bytes:
        document = self._document(random, answer_id, random.choice(TEXTS))
        if self.id_last:
            document = dict(reversed(document.items()))
        raw = json.dumps(document, **self.style).encode()
        spoilt = [raw.replace(b"a", b"\xff", 1), raw.replace(b"a", b"\\ud83d", 1), raw[:-1]]
        raw = random.choice([raw] * 40 + spoilt)
        before = random.choice([b""] * 20 + [b"event: error\n", b"event: x\n", b": ping\n\n"])
        return before + self.field + raw + self.line_end * 2

    def _document(self, random: Random, answer_id: str, text: str) -> dict[str, Any]:
        key = random.choice(self.keys)
        reason = random.choice([None] * 9 + ["stop", "length", "", "abort"])
        choice = {"index": 0, "delta": {key: text}, "finish_reason": reason}
        document = {"id": answer_id, "model": self.model, "choices": [choice]}
        usage = {"prompt_tokens": 4, "completion_tokens": random.randrange(9)}
        call = {"id": answer_id, "function": {"name": text, "arguments": text}}
        odd: list[dict[str, Any]] = [
            {"usage": usage},
            {"choices": [], "usage": usage | {"prompt_tokens_details": {"cached_tokens": 2}}},
            {"choices": [choice | {"delta": {"tool_calls": [call]}}]},
            {"choices": [choice | {"delta": {}}]},
            {"choices": [choice | {"delta": {"content": text, "reasoning": text}}]},
            {"choices": [choice, choice | {"index": 1}]},
            {"choices": [choice | {"index": 1}]},
            {"error": text},
            {"nested": {"id": answer_id}},
        ]
        return document | random.choice([{}] * 20 + odd)


def _reads(random: Random, events: list[bytes]) -> list[list[bytes]]:
    """Pieces by read: as the server framed them, all at once, or cut anywhere."""
    framed = random.random()
    if framed < 0.5:
        return [[event] for event in events]
    if framed < 0.7:
        return [events]
    whole = b"".join(events)
    edges = {0, len(whole), *(random.randrange(len(whole)) for _ in range(random.randrange(12)))}
    return [[whole[a:b]] for a, b in pairwise(sorted(edges))]


@dataclass
class Reading:
    """One answer, read both ways."""

    reads: list[list[bytes]]
    end: Failure | None
    patterns: Patterns
    at: int = 1
    results: list[tuple[Answer, list[str], list[Answer]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for patterns in (self.patterns, None):
            done: list[Answer] = []
            text: list[str] = []
            record = Record(number=0, entry=0)
            answer = Answer(record, streaming=True, done=done.append, text=text, patterns=patterns)
            answer.on_sent(self.at)
            answer.on_head(self.at, 200, SSE)
            self.results.append((answer, text, done))

    def step(self) -> bool:
        """Take the next read, or the end; False then."""
        self.at += 7
        read = self.reads.pop(0) if self.reads else None
        for answer, _, _ in self.results:
            if read is not None:
                answer.on_data(self.at, read)
            elif self.end is None:
                answer.on_end(self.at)
            else:
                answer.on_failure(self.at, self.end)
        return read is not None

    def outcomes(self) -> list[tuple[dict[str, Any], list[str], int]]:
        return [
            ({f.name: getattr(answer.record, f.name) for f in fields(Record)}, text, len(done))
            for answer, text, done in self.results
        ]


@given(st.randoms(use_true_random=False))
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_answers_that_mingle_are_read_as_if_each_were_parsed_alone(random: Random) -> None:
    patterns = Patterns()
    servers = [Dialect.drawn(random, model) for model in ("m", "n")]
    waiting = []
    for _ in range(12):
        events = random.choice(servers).stream(random)
        waiting.append(Reading(_reads(random, events), random.choice(ENDS), patterns))
    under_way = list(waiting)
    while under_way:
        reading = random.choice(under_way)
        if not reading.step():
            under_way.remove(reading)
    for reading in waiting:
        recognised, parsed = reading.outcomes()
        assert recognised == parsed
        assert recognised[2] == 1
