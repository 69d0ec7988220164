"""Everything of one run as one file: kept after the run is deleted, read again by `tare`.

It holds what the run's ConfigMaps hold and the BenchmarkRun itself, as gzipped JSON:

    zcat before.json.gz | jq .summary.verdict
"""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Final

from tare.manifests.metadata import Owner
from tare.measure import wire
from tare.results.document import RunResults
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from tare.kube.port import Cluster, Document

__all__ = ["SUFFIX", "gather", "pack", "unpack"]

SUFFIX: Final = ".json.gz"
_NOT_KEPT: Final = ("managedFields", "annotations")
"""Of the metadata: the second repeats the manifest as it was applied, whatever stood in it."""


async def gather(cluster: Cluster, run: Document) -> RunResults | None:
    """Read all results of a stored BenchmarkRun; None while it has no summary.

    Raises:
        KubeError: the API server refuses, or does not answer.
    """
    metadata = run["metadata"]
    owner = Owner(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
    store = ResultStore(cluster)
    summary = await store.load_summary(owner)
    if summary is None:
        return None
    trials = await store.load_trials(owner)
    kept = {name: value for name, value in metadata.items() if name not in _NOT_KEPT}
    return RunResults(
        run={**run, "metadata": kept},
        summary=summary,
        trials=tuple(trial for _, trial in sorted(trials.items())),
    )


def pack(results: RunResults) -> bytes:
    """Write everything; the same results give the same bytes."""
    return gzip.compress(wire.encode(results), mtime=0)


def unpack(raw: bytes) -> RunResults:
    """Read what `pack` wrote.

    Raises:
        ValueError: it is something else, or of another version of Tare; the message says what.
    """
    try:
        text = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it is no gzip file ({error})") from error
    return wire.decode(RunResults, text)
