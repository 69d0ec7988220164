"""A file for the embedded cluster: one BenchmarkRun, and the Secrets and ConfigMaps beside it.

It is checked here as the operator would, so that a mistake is shown before anything starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tare.api import names
from tare.cli.manifests import ManifestError, read_documents
from tare.decide.acceptance import Refused, accept
from tare.kube.port import CONFIG_MAP, RUN, SECRET, Document, Kind
from tare.net.allowlist import AllowList
from tare.net.origin import parse_origin

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["InvalidRunError", "RunFile", "load_run"]

_OTHERS = {"Secret": SECRET, "ConfigMap": CONFIG_MAP}
_TARGETS = ("service", "via", "url", "urls")
"""What says where the load goes; `via` is about a Service."""


class InvalidRunError(ManifestError):
    """The file cannot be run; one line for each problem, with the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A run and the objects that stand beside it."""

    run: Document
    others: tuple[tuple[Kind, Document], ...] = ()

    @property
    def namespace(self) -> str:
        """Namespace of the run and of everything in the file."""
        return str(self.run["metadata"]["namespace"])

    @property
    def urls(self) -> tuple[str, ...]:
        """Servers that the run names by URL."""
        endpoint = self.run["spec"]["endpoint"]
        return tuple(endpoint.get("urls") or filter(None, [endpoint.get("url")]))

    @property
    def origins(self) -> tuple[str, ...]:
        """Where these servers are, as entries of the operator's allow-list."""
        return tuple(str(parse_origin(url)) for url in self.urls)

    @property
    def objects(self) -> tuple[tuple[Kind, Document], ...]:
        """Everything to create; the run comes last, since it refers to the others."""
        return (*self.others, (RUN, self.run))


def load_run(source: str, *, urls: Sequence[str] = ()) -> RunFile:
    """Read a file (`-` is standard input), point its run at `urls`, if any, and check it.

    Raises:
        ManifestError: the file cannot be read, holds no or several runs, or an invalid one.
    """
    documents = list(read_documents(source))
    runs = [d for d in documents if isinstance(d, dict) and d.get("kind") == names.KIND]
    if len(runs) != 1:
        raise InvalidRunError(f"{source}: {len(runs)} documents of kind {names.KIND}; 1 is needed")
    [run] = runs
    if urls:
        _point_at(run, urls)
    outcome = accept(run, allow_targets=AllowList.everything())
    if isinstance(outcome, Refused):
        raise InvalidRunError("\n".join(f"{source}: {problem}" for problem in outcome.problems))
    namespace = run["metadata"].setdefault("namespace", "default")
    others = tuple(_other(source, d, namespace) for d in documents if d is not run)
    return RunFile(run=run, others=others)


def _point_at(run: Document, urls: Sequence[str]) -> None:
    """Replace the target of a run; whatever else is wrong with it, the check will say."""
    spec = run.get("spec")
    endpoint = spec.get("endpoint") if isinstance(spec, dict) else None
    if isinstance(endpoint, dict):
        for key in _TARGETS:
            endpoint.pop(key, None)
        endpoint.update({"url": urls[0]} if len(urls) == 1 else {"urls": list(urls)})


def _other(source: str, document: Any, namespace: str) -> tuple[Kind, Document]:
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in _OTHERS:
        raise InvalidRunError(
            f"{source}: a document of kind {kind!r} stands beside the run, where only "
            f"{' and '.join(_OTHERS)} may; start the server yourself and name it with --url"
        )
    document.setdefault("metadata", {})["namespace"] = namespace
    return _OTHERS[kind], document
