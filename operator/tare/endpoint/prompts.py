"""The system prompt that a run takes from a ConfigMap, read by the operator for its workers.

Read anew before each trial, so that a run whose ConfigMap is applied a moment later waits for it,
and kept until its Jobs are written: all workers of a trial get the same text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.api.prefixes import MAX_PROMPT_BYTES, is_short_enough
from tare.api.reasons import Reason
from tare.endpoint.errors import TargetError
from tare.kube.errors import Forbidden, NotFound
from tare.kube.port import CONFIG_MAP

if TYPE_CHECKING:
    from tare.api.endpoint import ConfigMapKey
    from tare.kube.port import Cluster

__all__ = ["read_prompt"]


async def read_prompt(cluster: Cluster, namespace: str, source: ConfigMapKey) -> str:
    """Read one entry of a ConfigMap.

    Raises:
        TargetError: it is not there (which may change), may not be read, is empty or too long.
    """
    where = f"ConfigMap {namespace}/{source.name}"
    try:
        document = await cluster.get(CONFIG_MAP, namespace, source.name)
    except NotFound as error:
        raise _missing(f"{where} does not exist") from error
    except Forbidden as error:
        message = f"the operator may not read {where}: {error}"
        raise TargetError(Reason.CONFIG_MAP_MISSING, message, final=True) from error
    data = document.get("data") or {}
    text = data.get(source.key)
    if text is None:
        there = ", ".join(sorted(data)) or "none"
        raise _missing(f"{where} has no key {source.key!r}; its keys are: {there}")
    if not text or not is_short_enough(text):
        message = (
            f"{where}: key {source.key!r} has {len(text.encode())} bytes; a system prompt has 1 to "
            f"{MAX_PROMPT_BYTES} as JSON"
        )
        raise TargetError(Reason.INVALID_SPEC, message, final=True)
    return str(text)


def _missing(message: str) -> TargetError:
    return TargetError(Reason.CONFIG_MAP_MISSING, message, final=False)
