"""The Kubernetes API through the official client, as the `Cluster` port.

Only the client's transport is used: configuration, TLS, tokens and their renewal. Its typed models
are not: they validate answers, so that a field added by a newer API server can fail a read, and
they cost memory. Documents stay JSON. Every failure leaves as one of `kube.errors`; the client's
own retries stay off, because only the caller knows when to give up.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)

from tare.kube.errors import Conflict, KubeError, NotFound, Unavailable
from tare.kube.translate import error_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from tare.kube.port import Document, Kind

__all__ = ["ApiCluster", "current_namespace"]

REQUEST_TIMEOUT = 30.0
"""Seconds for one request; the client's default of 300 would hold up a whole run."""
PAGE = 500
"""Objects in one page of a list, as kubectl asks for."""

_MERGE_PATCH = "application/merge-patch+json"


class ApiCluster:
    """Namespaced objects of one cluster, as JSON."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    @classmethod
    @asynccontextmanager
    async def connect(cls, kubeconfig: Path | None = None) -> AsyncIterator[ApiCluster]:
        """Open a client for the cluster that `kubeconfig`, `KUBECONFIG` or the pod names.

        Without either, a pod uses its service account and everybody else `~/.kube/config`.

        Raises:
            KubeError: there is no usable configuration.
        """
        async with await _client(kubeconfig) as client:
            yield cls(client)

    async def get(self, kind: Kind, namespace: str, name: str) -> Document:
        """Read one object; `NotFound` when it is not there."""
        return await self._request("GET", _path(kind, namespace, name))

    async def list(
        self, kind: Kind, namespace: str, *, labels: Mapping[str, str] | None = None
    ) -> list[Document]:
        """List the objects of a namespace whose labels equal `labels`, page by page.

        The pages are one consistent snapshot. When the server forgets it half-way, the list is
        read again in one piece, as client-go does.
        """
        path = _path(kind, namespace)
        query = {"limit": str(PAGE)}
        if labels:
            query["labelSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
        items: list[Document] = []
        while True:
            try:
                page = await self._request("GET", path, query=query)
            except _Gone:
                items.clear()
                query.pop("continue", None)
                query["limit"] = "0"
                page = await self._request("GET", path, query=query)
            items += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            query["continue"] = token

    async def create(self, kind: Kind, namespace: str, body: Document) -> Document:
        """Create an object; `AlreadyExists` when the name is taken."""
        return await self._request("POST", _path(kind, namespace), body=body)

    async def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Document,
        *,
        subresource: str | None = None,
    ) -> Document:
        """Merge-patch an object; a resourceVersion in `body` makes it fail with `Conflict`."""
        path = _path(kind, namespace, name, subresource)
        return await self._request("PATCH", path, body=body, content_type=_MERGE_PATCH)

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        foreground: bool = False,
    ) -> None:
        """Delete an object and its dependents; one that is gone, or has another `uid`, is done."""
        options: Document = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground" if foreground else "Background",
        }
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._request("DELETE", _path(kind, namespace, name), body=options)
        except NotFound:
            return
        except Conflict as error:
            # The only precondition is the uid, and both wordings of its refusal use this word.
            if uid is None or "precondition" not in str(error).lower():
                raise

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Document | None = None,
        content_type: str = "application/json",
    ) -> Document:
        """Send one request and read its JSON.

        Raises:
            KubeError: the subclass that says what went wrong.
        """
        request = f"{method} {path}"
        try:
            status, raw = await self._send(method, path, query, body, content_type)
        except TimeoutError as error:
            message = f"{request}: the API server did not answer within {REQUEST_TIMEOUT:g} s"
            raise Unavailable(message) from error
        except (ApiException, ConfigException, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{request}: {error}") from error
        if status == HTTPStatus.GONE:
            raise _Gone(str(error_of(status, raw, request)))
        if status >= 300:  # noqa: PLR2004 - the API server sends no redirects that we follow
            raise error_of(status, raw, request)
        try:
            return cast("Document", orjson.loads(raw))
        except ValueError as error:
            raise Unavailable(f"{request}: the answer is no JSON") from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Document | None,
        content_type: str,
    ) -> tuple[int, bytes]:
        prepared = await self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT)
        response = await self._client.call_api(*prepared, _request_timeout=timeout)
        return response.status, await response.read()  # type: ignore[no-untyped-call]


class _Gone(Unavailable):
    """410: the snapshot that a list was being read from is gone; for others, try again."""


def _path(kind: Kind, namespace: str, *rest: str | None) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = ("namespaces", namespace) if namespace else ()
    parts = (part for part in (*place, kind.plural, *rest) if part)
    return "/".join([root, *(quote(part, safe="") for part in parts)])


def current_namespace() -> str:
    """Return the namespace of the kubeconfig's current context, as kubectl takes it."""
    try:
        _, active = list_kube_config_contexts()  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001 - whoever connects hears what is wrong with the file
        return "default"
    return str(((active or {}).get("context") or {}).get("namespace") or "default")


async def _client(kubeconfig: Path | None) -> ApiClient:
    """Find the cluster as kubectl does; nothing is kept in the client's global state."""
    configuration = Configuration()
    path = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG")
    try:
        if path or "KUBERNETES_SERVICE_HOST" not in os.environ:
            await load_kube_config(config_file=path, client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        configuration.proxy = configuration.proxy or _proxy(configuration.host)
        configuration.client_session_kwargs = {"trust_env": False}
        return ApiClient(configuration)
    except Exception as error:  # the loader stumbles over a malformed file in a dozen ways
        where = f" in {path}" if path else ""
        raise KubeError(f"no usable Kubernetes configuration{where}: {error}") from error


def _proxy(server: str) -> str | None:
    """Find the proxy that the environment names for the API server.

    The client would have it looked up for each request, and a `.netrc` be read, in threads that
    cost a busy operator more than the request.
    """
    parts = urlsplit(server)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
