"""Proof of a reset: what a replica had cached before it must be new to it afterwards.

A server's "yes" is only its word, and old ones answer with nothing whatever happened. So a prompt
that nobody else sends goes to each replica twice before the reset, and must find its tokens the
second time, or the check could not fail; and once after it, and must find none. A server that does
not report cached tokens cannot be checked, and its word is all there is.

The prompt costs a replica three requests of about 220 tokens. As a completion, or as the system
message of a chat, it shares no full block with prompts of the load.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tare.endpoint.client import CallError, Control
from tare.endpoint.hooks.outcomes import unanswered
from tare.endpoint.hooks.proof import Proof, judge
from tare.measure.hooks import CallOutcome, HookCall, HookKind, HookReport, Replica, Replicas
from tare.net.auth import redact
from tare.telemetry.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tare.endpoint.client import Answer

__all__ = ["Canary", "canary_text", "prove"]

ExternalHits = Callable[[Replica], "Awaitable[float | None]"]

_WORDS = 220
"""Each is a token or more, so that blocks of up to 64 tokens are filled three times."""
_VOCABULARY = (
    "able bird call dark each farm gate hill idea join king lake mind note open park quiet road "
    "salt tree unit vast wind year zero aunt apple blue chair door earth fire glass house iron "
    "juice knife light moon north ocean paper queen river stone table uncle voice water young "
    "amber bread cloud dance eagle flame grass heart"
)
_LONGEST = 10.0
"""Seconds for one request: a server that was just asked for a probe is awake."""
_MAX_WORDS = 256
_ROUTES = ("/v1/completions", "/v1/chat/completions")
_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)


def canary_text(mark: str) -> str:
    """Write the prompt for one reset; another `mark` gives another one from its first word on."""
    choose = random.Random(mark)  # noqa: S311 - no secret
    return " ".join(choose.choices(_VOCABULARY.split(), k=_WORDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The prompt, and how it is sent."""

    text: str
    model: str
    headers: Mapping[str, str]
    host: str | None
    http: Control
    clock: Clock
    timeout: float
    """Of a hook's POST; a canary never waits longer than ten seconds."""
    prefixes: Mapping[str, str] = field(default_factory=dict)
    """Path under which the API of an origin lies, where it is not its root."""


async def prove(
    replicas: Replicas,
    reset: Callable[[], Awaitable[HookReport]],
    *,
    canary: Canary,
    external_hits: ExternalHits | None = None,
) -> HookReport:
    """Carry out `reset` between canaries on every replica at once, and say what it came to.

    `external_hits` reads how many tokens a replica has ever taken from the cache behind its KV
    connector. It is given when that cache is to be emptied too: what comes from there is a warning
    (a connector may not know the reset), what the server itself still holds is a failure.
    """
    checks = [_Check(canary=canary, replica=replica) for replica in replicas.ready]
    await asyncio.gather(*(check.before() for check in checks))
    report = await reset()
    if report.ok:
        await asyncio.gather(*(check.after(external_hits) for check in checks))
        report = judge(report, [check.proof() for check in checks])
    rows = tuple(row for check in checks for row in check.rows)
    return replace(report, calls=report.calls + rows)


@dataclass(slots=True, kw_only=True)
class _Check:
    """The canaries of one replica."""

    canary: Canary
    replica: Replica
    rows: list[HookCall] = field(default_factory=list)
    route: str = _ROUTES[0]
    known: int | None = None
    """Tokens that the second canary found; None when the server does not say."""
    left: int | None = None
    """Tokens that the last one found after the reset."""
    external: float = 0.0
    """Tokens of those that came from behind the KV connector."""
    why: str = ""
    """Why it says nothing."""

    async def before(self) -> None:
        """Make the prompt known, and see that the server finds it."""
        for self.route in _ROUTES:
            first = await self._send()
            if first is None or first.status not in _NO_ROUTE:
                break
        if first is not None and first.ok:
            second = await self._send()
            if second is not None and second.ok:
                self.known = _cached(second)
                self.why = "" if self.known is not None else "it reports no cached tokens"

    async def after(self, external_hits: ExternalHits | None) -> None:
        """Look what is left; a server that told before leaves the number out when it is zero."""
        if self.known == 0 or (self.known is None and external_hits is None) or self._unusable:
            return
        hits = await external_hits(self.replica) if external_hits else None
        answer = await self._send()
        if answer is None or not answer.ok:
            self.known = None
            return
        self.left = _cached(answer) or 0
        if hits is not None and external_hits is not None:
            self.external = max((await external_hits(self.replica) or 0.0) - hits, 0.0)

    def proof(self) -> Proof:
        """What is to be made of it."""
        return Proof(
            replica=self.replica.name,
            known=self.known,
            left=self.left,
            external=self.external,
            why=self.why,
        )

    @property
    def _unusable(self) -> bool:
        return not self.rows or self.rows[-1].outcome not in _ANSWERED

    async def _send(self) -> Answer | None:
        """Send once; whatever comes of it is a row."""
        canary, began = self.canary, self.canary.clock.now()
        origin = self.replica.origin
        answer = None
        try:
            answer = await canary.http.call(
                "POST",
                f"{origin}{canary.prefixes.get(origin, '')}{self.route}",
                headers=canary.headers,
                timeout=min(canary.timeout, _LONGEST),
                host=canary.host,
                body=_body(canary, self.route),
            )
        except CallError as error:
            verdict = unanswered(error, HookKind.RESET)
            outcome, message = verdict.outcome, verdict.message
        else:
            outcome, message = _read(answer, canary.headers)
        if outcome not in _ANSWERED:
            self.why = f"the canary failed: {message}"
        self.rows.append(
            HookCall(
                hook=HookKind.CANARY,
                replica=self.replica.name,
                origin=origin,
                attempt=len(self.rows) + 1,
                status=answer.status if answer is not None else None,
                seconds=canary.clock.now() - began,
                outcome=outcome,
                message=message,
            )
        )
        return answer


_ANSWERED = (CallOutcome.CONFIRMED, CallOutcome.UNVERIFIED)


def _body(canary: Canary, route: str) -> bytes:
    document: dict[str, Any] = {"model": canary.model, "max_tokens": 1, "temperature": 0}
    if route == _ROUTES[0]:
        document["prompt"] = canary.text
    else:
        document["messages"] = [
            {"role": "system", "content": canary.text},
            {"role": "user", "content": "Say yes."},
        ]
    return json.dumps(document).encode()


def _read(answer: Answer, headers: Mapping[str, str]) -> tuple[CallOutcome, str]:
    if not answer.ok:
        words = redact(" ".join(answer.text.split()), headers)[:_MAX_WORDS]
        return CallOutcome.REFUSED, f"{answer.status} {words}".rstrip()
    cached = _cached(answer)
    if cached is None:
        return CallOutcome.UNVERIFIED, "cached tokens are not reported"
    return CallOutcome.CONFIRMED, f"{cached} tokens were cached"


def _cached(answer: Answer) -> int | None:
    """Read the cached tokens of a usage object; None when they are not told."""
    try:
        found = json.loads(answer.body)["usage"]["prompt_tokens_details"]["cached_tokens"]
    except (ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, int) else None
