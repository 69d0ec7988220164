"""Results in ConfigMaps that the run owns: written once, found again by labels.

A trial is stored under a name that follows from its cell, trial and attempt, so a repeated store,
after a lost answer or by a restarted operator, finds what is there already. A trial counts as
stored when all of its parts are; half of one is thrown away and written again. The API server
deletes everything with the run.

What takes long with large results, that is packing and reading them, is done in threads: the loop
serves other runs meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from tare.api import names
from tare.decide.children import TrialKey, key_of
from tare.kube.errors import AlreadyExists
from tare.kube.port import CONFIG_MAP, Cluster, Document
from tare.manifests.metadata import Owner, child_metadata, run_labels, trial_labels
from tare.measure import wire
from tare.results import chunks
from tare.results.document import RunResults, SummaryDocument, TrialDocument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["ResultStore"]

T = TypeVar("T")

_TRIAL, _SUMMARY, _BASELINE = "trial-result", "summary-result", "baseline-copy"
"""Values of the component label."""


class ResultStore:
    """Reads and writes the results of runs; every method raises the errors of `kube.errors`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def store_trial(self, document: TrialDocument) -> tuple[str, ...]:
        """Store the end of a trial once and return the names of its ConfigMaps.

        What is stored first stays: the same attempt stored again is left as it is.

        Raises:
            AlreadyExists: an object of that name belongs to somebody else, such as an earlier run
                of the same name that is still being deleted.
        """
        record = document.record
        key = TrialKey(record.cell, record.trial, record.attempt)
        labels = {**trial_labels(document.run, key), names.LABEL_COMPONENT: _TRIAL}
        name = (f"c{key.cell}", f"t{key.trial}", f"a{key.attempt}")
        parts = chunks.split(wire.encode(document), _metadata(document.run, name, labels))
        return await self._store_once(document.run, parts, labels)

    async def load_trials(self, run: Owner) -> dict[tuple[int, int], TrialDocument]:
        """Read the stored end of every trial, by cell and trial; of several attempts the last.

        A trial of which only a part was written is not among them: it will be stored again.

        Raises:
            WireError: one is of another version of Tare.
        """
        parts_of: dict[TrialKey | None, list[Document]] = defaultdict(list)
        for part in await self._list(run, _component(run, _TRIAL)):
            parts_of[key_of(part)].append(part)
        found: dict[tuple[int, int], TrialDocument] = {}
        for parts in parts_of.values():
            document = await asyncio.to_thread(_decode, TrialDocument, parts)
            if document is None:
                continue
            record = document.record
            known = found.get((record.cell, record.trial))
            if known is None or known.record.attempt < record.attempt:
                found[record.cell, record.trial] = document
        return found

    async def store_summary(self, document: SummaryDocument) -> tuple[str, ...]:
        """Store the summary of a run in place of an earlier one; returns the ConfigMaps' names."""
        run = document.run
        labels = _component(run, _SUMMARY)
        parts = chunks.split(wire.encode(document), _metadata(run, ("summary",), labels))
        existing = {part["metadata"]["name"]: part for part in await self._list(run, labels)}
        for part in parts:
            name = part["metadata"]["name"]
            if name in existing:
                changes = {key: part[key] for key in ("data", "binaryData")}
                await self._cluster.patch(CONFIG_MAP, run.namespace, name, changes)
            else:
                await self._cluster.create(CONFIG_MAP, run.namespace, part)
        stored = tuple(part["metadata"]["name"] for part in parts)
        await self._delete(run, [part for name, part in existing.items() if name not in stored])
        return stored

    async def load_summary(self, run: Owner) -> SummaryDocument | None:
        """Read the summary of a run; None when there is none yet.

        Raises:
            WireError: it is of another version of Tare.
        """
        parts = await self._list(run, _component(run, _SUMMARY))
        return _decode(SummaryDocument, parts)

    async def store_baseline(self, run: Owner, baseline: RunResults) -> None:
        """Give a run its copy of another one's results, once.

        Raises:
            AlreadyExists: as `store_trial`.
        """
        labels = _baseline(run)
        metadata = _metadata(run, ("baseline",), labels)
        parts = await asyncio.to_thread(lambda: chunks.split(wire.encode(baseline), metadata))
        await self._store_once(run, parts, labels)

    async def has_baseline(self, run: Owner) -> bool:
        """Whether a run has its copy, whole."""
        return await asyncio.to_thread(_is_whole, await self._list(run, _baseline(run)))

    async def load_baseline(self, run: Owner) -> RunResults | None:
        """Read a run's copy of its baseline's results; None when it has none, or half of one.

        Raises:
            WireError: it is of another version of Tare.
        """
        parts = await self._list(run, _baseline(run))
        return await asyncio.to_thread(_decode, RunResults, parts)

    async def _store_once(
        self, run: Owner, parts: Sequence[Document], labels: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Create the parts of one document, or find what was created before."""
        try:
            return await self._create(run, parts)
        except AlreadyExists:
            existing = await self._list(run, labels)
            if not existing:
                raise
        if await asyncio.to_thread(_is_whole, existing):
            return tuple(sorted(part["metadata"]["name"] for part in existing))
        await self._delete(run, existing)
        return await self._create(run, parts)

    async def _create(self, run: Owner, parts: Iterable[Document]) -> tuple[str, ...]:
        created = []
        for part in parts:
            await self._cluster.create(CONFIG_MAP, run.namespace, part)
            created.append(part["metadata"]["name"])
        return tuple(created)

    async def _delete(self, run: Owner, parts: Iterable[Document]) -> None:
        for part in parts:
            metadata = part["metadata"]
            await self._cluster.delete(
                CONFIG_MAP, run.namespace, metadata["name"], uid=metadata["uid"]
            )

    async def _list(self, run: Owner, labels: Mapping[str, str]) -> list[Document]:
        found = await self._cluster.list(CONFIG_MAP, run.namespace, labels=labels)
        return [part for part in found if _is_owned(part, run)]


def _component(run: Owner, component: str) -> dict[str, str]:
    return {**run_labels(run), names.LABEL_COMPONENT: component}


def _baseline(run: Owner) -> dict[str, str]:
    """Labels of a copy: none of those by which the run's own results are selected."""
    return {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_COMPONENT: _BASELINE,
        names.LABEL_BASELINE_OF: run.uid,
    }


def _metadata(run: Owner, key: tuple[str, ...], labels: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Metadata of the first, second, … part."""
    for number in itertools.count():
        yield child_metadata(run, names.child_name(run.name, *key, f"p{number}"), labels)


def _is_owned(part: Document, run: Owner) -> bool:
    """Whether a ConfigMap belongs to the run: labels can be written by anybody."""
    owners = part["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == run.uid for owner in owners)


def _is_whole(parts: Iterable[Document]) -> bool:
    try:
        chunks.join(parts)
    except chunks.DamagedError:
        return False
    return True


def _decode(kind: type[T], parts: Iterable[Document]) -> T | None:
    try:
        return wire.decode(kind, chunks.join(parts))
    except chunks.DamagedError:
        return None
