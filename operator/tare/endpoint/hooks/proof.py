"""What canaries on all replicas say together of a reset that the servers have accepted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tare.api.reasons import Reason
from tare.endpoint.hooks.outcomes import MAX_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tare.measure.hooks import HookReport

__all__ = ["Proof", "judge"]

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the canaries of one replica found."""

    replica: str
    """`Replica.name`."""
    known: int | None
    """Tokens found before the reset, when they were sent for the second time; None: not told."""
    left: int | None
    """Tokens found after it; None: not asked."""
    external: float = 0.0
    """Tokens that came from a cache behind the KV connector after it."""
    why: str = ""
    """Why nothing is known."""

    @property
    def held(self) -> bool:
        """The server itself still had the prompt, as far as the connector does not explain it."""
        return (self.left or 0) > self.external

    @property
    def proven(self) -> bool:
        """The check could fail, and did not."""
        return bool(self.known) and self.left == 0 and not self.external


def judge(report: HookReport, proofs: Sequence[Proof]) -> HookReport:
    """Turn an accepted reset into one that is proven, doubted or refuted.

    A replica that still holds the prompt refutes it. Tokens from behind a connector are a warning.
    A prompt that is never found proves nothing, and leaves the reset unverified. Where a server
    does not tell, its word stands as it was.
    """
    held = [proof for proof in proofs if proof.held]
    external = [proof for proof in proofs if proof.external]
    blind = [proof for proof in proofs if proof.known == 0]
    mute = [proof for proof in proofs if proof.known is None]
    if held:
        text = _named(held, lambda p: f"{p.replica} still found {p.left} of {p.known} tokens")
        text = (
            f"KV cache reset was accepted, but did not empty the cache: {text} of a prompt from "
            "before it; another client may have sent it, or a cache behind a KV connector may "
            "hold it (resetKvCache.resetExternal)"
        )
        return _doubted(report, text, ok=False)
    if external:
        text = _named(external, lambda p: f"{p.replica} took {p.external:g} tokens from it")
        text = f"{report.message}, but the external cache was not emptied: {text}"
        return _doubted(report, text, ok=True)
    if blind:
        text = _named(blind, lambda p: p.replica)
        text = (
            f"{report.message}, which cannot be proven: {text} finds no cached tokens in a prompt "
            "that it has just answered"
        )
        return replace(report, verified=False, message=text[:MAX_MESSAGE])
    if mute:
        text = _named(mute, lambda p: f"{p.replica}: {p.why}")
        return replace(report, message=f"{report.message}, but not proven ({text})"[:MAX_MESSAGE])
    return replace(report, proven=True, message=f"{report.message}, and proven by a canary")


def _doubted(report: HookReport, message: str, *, ok: bool) -> HookReport:
    return replace(
        report,
        ok=ok,
        verified=False,
        reason=Reason.RESET_INCOMPLETE,
        message=message[:MAX_MESSAGE],
    )


def _named(proofs: Sequence[Proof], tell: Callable[[Proof], str]) -> str:
    told = ", ".join(tell(proof) for proof in proofs[:_MOST_NAMED])
    more = len(proofs) - _MOST_NAMED
    return f"{told} and {more} more" if more > 0 else told
