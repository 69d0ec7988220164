"""What Tare knows about each kind of model server: how it says yes and "busy", and what to advise.

A table of facts about answers; the default paths are part of the API (`api.hooks`). No version is
looked at: a server that lacks a route answers 404, and the advice says why it usually does. The
sources stand beside each entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PRESETS", "Preset"]


_BUSY = frozenset(
    {
        HTTPStatus.CONFLICT,
        HTTPStatus.LOCKED,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One kind of server."""

    busy: frozenset[int] = _BUSY
    """Statuses of a reset that mean "not now"."""
    text_confirms: bool = False
    """A 200 with plain text is a yes, because "no" has another status."""
    no_reset_route: str
    """Advice when the reset's route is missing."""
    no_profiler_route: str
    """Advice when a profiler's route is missing."""


PRESETS: Mapping[str, Preset] = {
    # https://docs.vllm.ai/en/stable/contributing/profiling/, vllm PR 12284
    "vllm": Preset(
        no_reset_route="vLLM serves it only with VLLM_SERVER_DEV_MODE=1 in its environment",
        no_profiler_route="vLLM serves it only when started with --profiler-config",
    ),
    # sglang PR 21413: 400 while requests run or wait, otherwise 200 with a sentence.
    "sglang": Preset(
        busy=_BUSY | {HTTPStatus.BAD_REQUEST},
        text_confirms=True,
        no_reset_route="every SGLang server has /flush_cache; is this the address of a router?",
        no_profiler_route="is this the address of a router? Its engines have the route",
    ),
    # TensorRT-LLM PR 15306 took the reset's route out again; PR 13872 added the profiler's.
    "trtllm": Preset(
        no_reset_route=(
            "TensorRT-LLM has no such route; isolate the phases with"
            " dataset.prompts.cacheBust and set resetKvCache: false"
        ),
        no_profiler_route="TensorRT-LLM serves it in newer images only",
    ),
    # The frontend of Dynamo 1.6 has neither route; its workers profile on their system port.
    "dynamo": Preset(
        no_reset_route=(
            "Dynamo's frontend has lost it in 1.6; isolate the phases with"
            " dataset.prompts.cacheBust and set resetKvCache: false"
        ),
        no_profiler_route="Dynamo's workers serve it, on their system port (DYN_SYSTEM_PORT)",
    ),
    "generic": Preset(
        no_reset_route="name the server's own route in resetKvCache.path",
        no_profiler_route=(
            "name the server's own routes in serverProfiler.startPath and serverProfiler.stopPath"
        ),
    ),
}
"""By `spec.endpoint.server`."""
