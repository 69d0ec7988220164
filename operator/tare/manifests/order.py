"""From a cell's resolved spec to the work order of its workers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.api import names
from tare.api.dataset import Turns
from tare.api.prefixes import PrefixPrompts
from tare.measure.rows import rows_of_trial
from tare.plan.order import (
    CacheBustOrder,
    DatasetOrder,
    HeaderOrder,
    Lengths,
    PhaseOrder,
    RampOrder,
    TargetOrder,
    TlsOrder,
    TurnsOrder,
    WorkOrder,
)
from tare.plan.schedule import most_requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.api.dataset import Dataset
    from tare.api.endpoint import Endpoint, Tls
    from tare.api.lengths import TokenLengths
    from tare.api.phases import Phase
    from tare.api.spec import BenchmarkRunSpec
    from tare.decide.children import TrialKey
    from tare.manifests.metadata import Owner
    from tare.net.auth import Header

__all__ = ["Address", "build_order", "build_phases", "build_target"]

_FEWEST_GUESSED, _MOST_GUESSED = 1_000, 20_000
"""Prompts of a closed loop that stops by time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the load goes, as found by discovery."""

    urls: tuple[str, ...]
    host: str | None = None
    """`Host` header when the URLs hold an address instead of the Service's name."""


def build_order(
    owner: Owner,
    key: TrialKey,
    spec: BenchmarkRunSpec,
    *,
    address: Address,
    headers: Sequence[Header],
    trials: int = 1,
    system_prompt: str | None = None,
) -> WorkOrder:
    """Build the order for one attempt at one trial.

    Args:
        owner: the run.
        key: which trial of which cell, and which attempt.
        spec: the cell's.
        address: where the load goes.
        headers: of each request.
        trials: of the whole run; one of many keeps fewer rows.
        system_prompt: what `systemPromptFrom` names, as it was read.
    """
    phases = build_phases(spec)
    return WorkOrder(
        run=owner.name,
        namespace=owner.namespace,
        run_uid=owner.uid,
        cell=key.cell,
        trial=key.trial,
        attempt=key.attempt,
        workers=spec.workers.replicas,
        processes=spec.workers.processes,
        target=build_target(spec.endpoint, address, headers),
        dataset=_dataset(spec.dataset, phases, system_prompt),
        count_tokens=True,
        phases=phases,
        rows=rows_of_trial(trials),
        goodput=spec.goodput_seconds,
    )


def build_phases(spec: BenchmarkRunSpec) -> tuple[PhaseOrder, ...]:
    """Say what each phase of a cell sends; the cache plan uses the same words as the load."""
    return tuple(_phase(phase, spec.dataset.seed) for phase in spec.phases)


def build_target(endpoint: Endpoint, address: Address, headers: Sequence[Header]) -> TargetOrder:
    """Say where and how requests go; the preflight's probe uses the same words as the load."""
    return TargetOrder(
        urls=address.urls,
        host=address.host,
        tls=_tls(endpoint.tls),
        model=endpoint.model,
        type=endpoint.type,
        streaming=endpoint.streaming,
        headers=tuple(
            HeaderOrder(name=h.name, value=h.value, env=h.env, prefix=h.prefix) for h in headers
        ),
        extra_body=endpoint.extra_body,
        request_timeout=endpoint.request_timeout_seconds,
        idle_timeout=endpoint.idle_timeout_seconds,
    )


def _tls(tls: Tls | None) -> TlsOrder | None:
    if tls is None:
        return None
    return TlsOrder(
        authority_env=names.ENV_AUTHORITY if tls.ca_secret_ref is not None else None,
        verify=not tls.insecure_skip_verify,
    )


def _dataset(
    dataset: Dataset, phases: Sequence[PhaseOrder], system_prompt: str | None
) -> DatasetOrder:
    entries = dataset.entries or max(_prompts_needed(phase) for phase in phases)
    prompts, bust = dataset.prompts, dataset.prompts.cache_bust
    prefix = dataset.prefix_prompts or PrefixPrompts()
    return DatasetOrder(
        entries=entries,
        isl=_lengths(prompts.input_lengths),
        osl=_lengths(prompts.output_lengths),
        seed=dataset.seed,
        shared_system=prefix.shared_system_length,
        system_prompt=prefix.system_prompt or system_prompt,
        user_context=prefix.user_context_length,
        pool_size=prefix.pool_size,
        pool_length=prefix.pool_length,
        turns=_turns(dataset.turns or Turns()),
        cache_bust=CacheBustOrder(target=bust.target, scope=bust.scope, carrier=bust.carrier),
    )


def _turns(turns: Turns) -> TurnsOrder:
    return TurnsOrder(
        mean=turns.mean,
        continue_probability=turns.continue_probability,
        delay=turns.delay_seconds,
    )


def _lengths(given: TokenLengths) -> Lengths:
    return Lengths(
        value=given.value,
        mean=given.mean,
        stddev=given.stddev,
        min=given.min,
        max=given.max,
        values=given.values,
        weights=given.weights,
    )


def _prompts_needed(phase: PhaseOrder) -> int:
    """Enough that no prompt repeats in the phase.

    How many requests a closed loop sends in a given time is the server's doing; there two a second
    for each request in flight are assumed, within bounds that a worker's memory can take.
    """
    needed = most_requests(phase)
    if needed is not None:
        return max(1, needed)
    estimate = math.ceil((phase.concurrency or 1) * (phase.duration or 0.0) * 2)
    return min(max(estimate, _FEWEST_GUESSED), _MOST_GUESSED)


def _phase(phase: Phase, seed: int) -> PhaseOrder:
    kind = phase.type
    assert kind != "fixedSchedule", "api.unbuilt refuses it"
    assert kind != "agenticReplay", "api.unbuilt refuses it"
    return PhaseOrder(
        name=phase.name,
        kind=phase.kind,
        type=kind,
        concurrency=phase.concurrency,
        rate=phase.rate,
        max_concurrency=phase.max_concurrency,
        smoothness=1.0 if phase.smoothness is None else phase.smoothness,
        ramp=_ramp(phase),
        seed=seed,
        requests=phase.requests,
        sessions=phase.sessions,
        duration=phase.duration_seconds,
        grace=phase.grace_period_seconds,
        cancel_share=phase.cancel_fraction,
        cancel_after=phase.cancel_after_seconds or 0.0,
        seamless=phase.seamless,
    )


def _ramp(phase: Phase) -> RampOrder | None:
    """Say where a ramp begins: a concurrency of 0 would only be a pause."""
    ramp = phase.ramp
    if ramp is None:
        return None
    default = 0.0 if phase.concurrency is None else 1.0
    start = default if ramp.start is None else ramp.start
    return RampOrder(type=ramp.type, seconds=ramp.seconds, start=start)
