"""An embedded cluster with the operator on it, for as long as a command runs.

The cluster's API server, controllers and pods are those of `tare.devcluster`; the operator is the
same program that a Deployment runs, as a process of its own in a session of its own, so that a
Ctrl-C of the terminal reaches this process alone and the end has an order. Should this process be
killed, the guardian of `tare.devcluster` ends the operator too.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
import tempfile
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp

from tare.devcluster.cluster import DevCluster
from tare.devcluster.node.processes import Guardian
from tare.kube.client import ApiCluster
from tare.kube.port import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from contextlib import AbstractContextManager


__all__ = ["SERVER_IMAGE", "Embedded", "EmbeddedError", "Operator", "embedded", "shipped"]

T = TypeVar("T")

SERVER_IMAGE = "localhost/tare:dev"
WORKER_IMAGE = "localhost/tare-worker:dev"
_COMMAND = (sys.executable, "-m", "tare")
_READY_SECONDS = 30.0
_STOP_SECONDS = 1.0
"""Its runs have ended by then and its cluster goes too: what it still waits for is lost anyway."""
_LOG_LINES = 15


class EmbeddedError(Exception):
    """The embedded cluster cannot be used; `str()` says what happened and what was logged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The operator's process."""

    url: str
    """Base URL of its health, metrics and inbox."""
    process: asyncio.subprocess.Process
    log: Path

    def check(self) -> None:
        """Raise `EmbeddedError` when the process has ended."""
        code = self.process.returncode
        if code is not None:
            lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
            raise EmbeddedError("\n".join([f"the operator ended with code {code}:", *lines]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A running embedded cluster."""

    url: str
    """Base URL of the API server."""
    cluster: Cluster
    kubeconfig: Path
    operator: Operator


@asynccontextmanager
async def embedded(
    *, namespaces: Iterable[str], allowed_targets: Iterable[str] = ()
) -> AsyncIterator[Embedded]:
    """Start a cluster with our CRD, `namespaces` and the operator; stop it all at the end.

    Args:
        namespaces: created at the start.
        allowed_targets: entries of the operator's allow-list for `url` and `urls`.

    Raises:
        EmbeddedError: the operator does not start.
    """
    images = {SERVER_IMAGE: _COMMAND, WORKER_IMAGE: _COMMAND}
    with tempfile.TemporaryDirectory(prefix="tare-") as text:
        directory = Path(text)
        kubeconfig = directory / "kubeconfig"
        crds = sorted(shipped("crds").glob("*.yaml"))
        async with _off_the_loop(DevCluster(crds=crds, images=images)) as devcluster:
            devcluster.write_kubeconfig(kubeconfig)
            await _create_namespaces(devcluster.url, namespaces)
            async with (
                _operator(directory, kubeconfig, allowed_targets) as operator,
                ApiCluster.connect(kubeconfig) as cluster,
            ):
                yield Embedded(
                    url=devcluster.url, cluster=cluster, kubeconfig=kubeconfig, operator=operator
                )


@asynccontextmanager
async def _off_the_loop(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a blocking context manager in a thread, so that signals are heard."""
    entering = asyncio.ensure_future(asyncio.to_thread(manager.__enter__))
    try:
        value = await asyncio.shield(entering)
    except asyncio.CancelledError:
        await entering
        await asyncio.to_thread(manager.__exit__, None, None, None)
        raise
    try:
        yield value
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def _create_namespaces(url: str, names: Iterable[str]) -> None:
    """Create those that a new cluster does not have, as it has `default`."""
    async with aiohttp.ClientSession(url) as session:
        for name in names:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            async with session.post("/api/v1/namespaces", json=body) as response:
                if response.status != HTTPStatus.CONFLICT:
                    response.raise_for_status()


def shipped(folder: str) -> Path:
    """A folder that the wheel carries inside the package and a checkout has at its root."""
    package = Path(__file__).parents[1]
    inside = package / folder
    return inside if inside.is_dir() else package.parents[1] / folder


@asynccontextmanager
async def _operator(
    directory: Path, kubeconfig: Path, allowed_targets: Iterable[str]
) -> AsyncIterator[Operator]:
    key = directory / "operator.key"
    key.write_bytes(secrets.token_bytes(32))
    listen = f"127.0.0.1:{_free_port()}"
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "TARE_OPERATOR_LISTEN": listen,
        "TARE_INBOX_URL": f"http://{listen}",
        "TARE_OPERATOR_KEY_FILE": str(key),
        "TARE_WORKER_IMAGE": WORKER_IMAGE,
        "TARE_ALLOWED_TARGETS": ",".join(allowed_targets),
        "TARE_NAMESPACES": "",
    }
    log = directory / "operator.log"
    guardian = Guardian()
    process = await _spawn(environment, log)
    guardian.watch(process.pid)
    operator = Operator(url=f"http://{listen}", process=process, log=log)
    try:
        await _until_ready(operator)
        yield operator
    finally:
        await _stop(process)
        guardian.forget(process.pid)
        guardian.close()


async def _spawn(environment: Mapping[str, str], log: Path) -> asyncio.subprocess.Process:
    with log.open("wb") as output:
        return await asyncio.create_subprocess_exec(
            *_COMMAND,
            "operator",
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


async def _until_ready(operator: Operator) -> None:
    try:
        async with asyncio.timeout(_READY_SECONDS), aiohttp.ClientSession() as session:
            while not await _is_ready(session, operator):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        lines = operator.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        text = f"the operator was not ready after {_READY_SECONDS:g} s:"
        raise EmbeddedError("\n".join([text, *lines])) from error


async def _is_ready(session: aiohttp.ClientSession, operator: Operator) -> bool:
    operator.check()
    with suppress(aiohttp.ClientError):
        async with session.get(f"{operator.url}/readyz") as response:
            return response.status == HTTPStatus.OK
    return False


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: Any = listener.getsockname()[1]
        return int(port)
