"""Where a command finds the results of a run: in a file that `--export` wrote, or in the cluster.

A file is known by its name, so that a run of any name can be asked for: what ends in `.json.gz` is
one, everything else is `[NAMESPACE/]NAME` of a BenchmarkRun, in the cluster of KUBECONFIG.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tare.kube.client import ApiCluster, current_namespace
from tare.kube.errors import NotFound
from tare.kube.port import RUN
from tare.measure.wire import WireError
from tare.results.archive import SUFFIX, gather, unpack

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.results.document import RunResults

__all__ = ["SourceError", "namespace_option", "read_source"]

F = TypeVar("F", bound="Callable[..., Any]")


class SourceError(Exception):
    """There are no results there; `str()` says why and what to do."""


def namespace_option(command: F) -> F:
    """Give a command `--namespace`."""
    option = click.option(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help="Of runs in the cluster that are named without one; else the kubeconfig's.",
    )
    return option(command)


async def read_source(source: str, namespace: str | None = None) -> RunResults:
    """Read the results of one run.

    Raises:
        SourceError: there is no such file or run, it is none, or it has no results yet.
        KubeError: the cluster refuses, or cannot be reached.
    """
    if source.endswith(SUFFIX):
        return _read_file(Path(source))
    place, _, name = source.rpartition("/")
    return await _read_run(place or namespace or current_namespace(), name)


def _read_file(path: Path) -> RunResults:
    try:
        return unpack(path.read_bytes())
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise SourceError(
            f"{path}: {error}; a file of results is what `--export NAME{SUFFIX}` writes"
        ) from error


async def _read_run(namespace: str, name: str) -> RunResults:
    async with ApiCluster.connect() as cluster:
        try:
            run = await cluster.get(RUN, namespace, name)
        except NotFound as error:
            raise SourceError(
                f"there is no BenchmarkRun {name!r} in namespace {namespace!r}; "
                "`kubectl get benchmarkruns --all-namespaces` lists all"
            ) from error
        try:
            results = await gather(cluster, run)
        except WireError as error:
            raise SourceError(
                f"the results of run {namespace}/{name} are of another version of Tare ({error}); "
                "read them with that one"
            ) from error
    if results is None:
        phase = (run.get("status") or {}).get("phase", "Pending")
        raise SourceError(
            f"run {namespace}/{name} has no results yet: its phase is {phase}; wait with `kubectl "
            f"wait --for=condition=Finished --namespace={namespace} benchmarkrun/{name}`"
        )
    return results
