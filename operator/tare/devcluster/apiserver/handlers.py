"""The verbs: what a request on a resource does, from query and body to the answer."""

from __future__ import annotations

import base64
import binascii
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from aiohttp import web

from tare.devcluster.apiserver import errors
from tare.devcluster.apiserver.builtin import metadata_schema
from tare.devcluster.apiserver.decoding import (
    FieldValidation,
    check_kind,
    conform,
    parse_body,
)
from tare.devcluster.apiserver.deletion import DeleteOptions, delete
from tare.devcluster.apiserver.documents import Document, copy_of
from tare.devcluster.apiserver.evictions import evict
from tare.devcluster.apiserver.patching import Patcher
from tare.devcluster.apiserver.queries import whole_number
from tare.devcluster.apiserver.resources import Propagation, Resource
from tare.devcluster.apiserver.selection import Selection
from tare.devcluster.apiserver.tables import render_table
from tare.devcluster.apiserver.watch import Watch, WatchOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.devcluster.apiserver.registry import Registry, Written
    from tare.devcluster.apiserver.routes import Target
    from tare.devcluster.faults import Faults

__all__ = ["Handlers", "LogSource", "respond"]


class LogSource(Protocol):
    """Where `pods/log` reads from: the node."""

    async def stream(
        self, request: web.Request, pod: Document, query: Mapping[str, str]
    ) -> web.StreamResponse:
        """Send a container's output as the query asks for it."""
        ...


def respond(
    document: Any, status: int = HTTPStatus.OK, warnings: Sequence[str] = ()
) -> web.Response:
    """Answer with JSON, and with a `Warning` header for each warning."""
    response = web.Response(
        body=orjson.dumps(document), status=status, content_type="application/json"
    )
    for warning in warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


class Handlers:
    """One method for each verb."""

    def __init__(self, registry: Registry, faults: Faults, logs: LogSource) -> None:
        self._registry = registry
        self._faults = faults
        self._logs = logs
        self._patcher = Patcher(registry)

    async def handle(self, verb: str, request: web.Request, target: Target) -> web.StreamResponse:
        """Carry out a verb; the caller has checked that it may be."""
        if verb not in {*target.resource.verbs, "get"}:
            raise errors.ApiError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        match verb:
            case "get":
                return await self._get(request, target)
            case "list":
                return self._list(request, target)
            case "watch":
                return await self._watch(request, target)
            case "create":
                return await self._create(request, target)
            case "update":
                return await self._update(request, target)
            case "patch":
                return await self._patch(request, target)
            case "delete":
                return await self._delete(request, target)
            case _:
                return await self._delete_collection(request, target)

    async def _get(self, request: web.Request, target: Target) -> web.StreamResponse:
        document = self._registry.get(target.resource, target.place, target.name)
        if target.subresource == "log":
            return await self._logs.stream(request, document, request.query)
        if _wants_table(request):
            metadata = {"resourceVersion": document["metadata"]["resourceVersion"]}
            return respond(_table(request, target.resource, [document], metadata))
        return respond(document)

    def _list(self, request: web.Request, target: Target) -> web.Response:
        query, resource = request.query, target.resource
        selection = Selection.parse(resource, target.namespace, query)
        self._check_revision(whole_number(query, "resourceVersion") or 0)
        documents = [
            document
            for document in self._registry.store.all(resource.key, target.namespace)
            if selection.matches(document)
        ]
        metadata: Document = {"resourceVersion": str(self._registry.store.revision)}
        documents = _page(documents, query, metadata)
        if _wants_table(request):
            return respond(_table(request, resource, documents, metadata))
        return respond(_list_of(resource, documents, metadata))

    def _check_revision(self, wanted: int) -> None:
        current = self._registry.store.revision
        if wanted > current:
            raise errors.ApiError(
                HTTPStatus.GATEWAY_TIMEOUT,
                "Timeout",
                f"Timeout: Too large resource version: {wanted}, current: {current}",
                details={
                    "causes": [
                        {
                            "reason": "ResourceVersionTooLarge",
                            "message": "Too large resource version",
                        }
                    ],
                    "retryAfterSeconds": 1,
                },
            )

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        resource = target.resource
        selection = Selection.parse(resource, target.namespace, request.query, target.name)
        watch = Watch(self._registry, resource, selection, WatchOptions.parse(request.query))
        header = True

        def encode(document: Document) -> Document:
            nonlocal header
            if not _wants_table(request):
                return document
            version = {"resourceVersion": document["metadata"]["resourceVersion"]}
            table = _table(request, resource, [document], version, header=header)
            header = False
            return table

        with self._faults.track(watch):
            return await watch.serve(request, encode)

    async def _create(self, request: web.Request, target: Target) -> web.Response:
        body = parse_body(await request.read(), request.content_type)
        if target.subresource == "eviction":
            pod = self._registry.get(target.resource, target.place, target.name)
            evict(self._registry, target.resource, pod)
            return respond({"kind": "Status", "apiVersion": "v1", "status": "Success"}, 201)
        document = check_kind(target.resource, body)
        warnings = conform(target.resource, document, _field_validation(request), metadata_schema())
        if target.resource.kind == "SelfSubjectAccessReview":
            return respond(self._review(document), HTTPStatus.CREATED, warnings)
        created = self._registry.create(
            target.resource, target.place, document, dry_run=_is_dry_run(request)
        )
        return respond(created, HTTPStatus.CREATED, warnings)

    def _review(self, document: Document) -> Document:
        asked = document.get("spec", {}).get("resourceAttributes", {})
        denied = self._faults.is_denied(asked.get("verb", ""), asked.get("resource", ""))
        return {**document, "status": {"allowed": not denied}}

    async def _update(self, request: web.Request, target: Target) -> web.Response:
        resource = target.resource
        document = check_kind(resource, parse_body(await request.read(), request.content_type))
        warnings = conform(resource, document, _field_validation(request), metadata_schema())
        if document["metadata"].get("name", target.name) != target.name:
            raise errors.bad_request(
                f"the name of the object ({document['metadata']['name']}) does not match the name "
                f"on the URL ({target.name})"
            )
        if resource.custom and not document["metadata"].get("resourceVersion"):
            missing = errors.FieldError(
                errors.FieldErrorType.INVALID,
                "metadata.resourceVersion",
                "must be specified for an update",
                0,
            )
            raise errors.invalid(resource.group, resource.plural, target.name, [missing])
        written = self._patcher.replace(target, document, request.query)
        return respond(written.document, HTTPStatus.OK, warnings)

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        patch = parse_body(await request.read(), request.content_type)
        result = self._patcher.patch(
            target, patch, request.content_type, request.query, _field_validation(request)
        )
        status = HTTPStatus.CREATED if result.created else HTTPStatus.OK
        return respond(result.document, status, result.warnings)

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        options = await _delete_options(request)
        resource = target.resource
        written = delete(self._registry, resource, target.place, target.name, options)
        return respond(_deleted(resource, written))

    async def _delete_collection(self, request: web.Request, target: Target) -> web.Response:
        options = await _delete_options(request)
        resource = target.resource
        selection = Selection.parse(resource, target.namespace, request.query)
        documents = [
            document
            for document in self._registry.store.all(resource.key, target.namespace)
            if selection.matches(document)
        ]
        for document in documents:
            metadata = document["metadata"]
            delete(
                self._registry,
                resource,
                metadata.get("namespace", ""),
                metadata["name"],
                options,
            )
        metadata = {"resourceVersion": str(self._registry.store.revision)}
        return respond(_list_of(resource, documents, metadata))


def _wants_table(request: web.Request) -> bool:
    return "as=Table" in request.headers.get("Accept", "")


def _table(
    request: web.Request,
    resource: Resource,
    documents: Sequence[Document],
    metadata: Document,
    *,
    header: bool = True,
) -> Document:
    include = request.query.get("includeObject", "Metadata")
    return render_table(resource, documents, metadata, include=include, header=header)


def _list_of(resource: Resource, documents: Sequence[Document], metadata: Document) -> Document:
    items = list(documents)
    if not resource.custom:  # typed lists leave the type out of their items
        items = [
            {key: value for key, value in item.items() if key not in {"apiVersion", "kind"}}
            for item in documents
        ]
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "items": items,
    }


def _page(
    documents: list[Document], query: Mapping[str, str], metadata: Document
) -> list[Document]:
    """Cut a page out of a list; the next one starts behind the last object sent.

    Pages are read from the current state, not from one snapshot: what changes between two pages
    is seen by a watch from the first page's revision.
    """
    if token := query.get("continue"):
        start = _read_token(token)
        documents = [item for item in documents if _position(item) > start]
    limit = whole_number(query, "limit") or 0
    if not limit or len(documents) <= limit:
        return documents
    page = documents[:limit]
    metadata["continue"] = base64.b64encode(orjson.dumps(_position(page[-1]))).decode()
    metadata["remainingItemCount"] = len(documents) - limit
    return page


def _position(document: Document) -> list[str]:
    metadata = document["metadata"]
    return [metadata.get("namespace", ""), metadata["name"]]


def _read_token(token: str) -> list[str]:
    try:
        position: list[str] = orjson.loads(base64.b64decode(token))
    except (binascii.Error, orjson.JSONDecodeError) as error:
        raise errors.bad_request("continue key is not valid") from error
    return position


def _field_validation(request: web.Request) -> FieldValidation:
    text = request.query.get("fieldValidation") or FieldValidation.WARN
    try:
        return FieldValidation(text)
    except ValueError as error:
        allowed = ", ".join(FieldValidation)
        raise errors.bad_request(f"fieldValidation={text} is not one of {allowed}") from error


def _is_dry_run(request: web.Request) -> bool:
    return request.query.get("dryRun") == "All"


async def _delete_options(request: web.Request) -> DeleteOptions:
    raw = await request.read()
    body = parse_body(raw, request.content_type if raw else "") if raw else {}
    preconditions = body.get("preconditions") or {}
    policy = body.get("propagationPolicy") or request.query.get("propagationPolicy")
    if policy is None and "orphanDependents" in body:
        policy = Propagation.ORPHAN if body["orphanDependents"] else Propagation.BACKGROUND
    grace = body.get("gracePeriodSeconds", whole_number(request.query, "gracePeriodSeconds"))
    if policy and policy not in set(Propagation):
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [_unknown_policy(policy)])
    propagation = Propagation(policy) if policy else None
    return DeleteOptions(
        uid=preconditions.get("uid", ""),
        resource_version=preconditions.get("resourceVersion", ""),
        propagation=propagation,
        grace_seconds=grace,
        dry_run="All" in (body.get("dryRun") or ()) or _is_dry_run(request),
    )


def _unknown_policy(policy: str) -> errors.FieldError:
    allowed = ", ".join(f'"{value}"' for value in ("Foreground", "Background", "Orphan", "nil"))
    detail = f"supported values: {allowed}"
    return errors.FieldError(
        errors.FieldErrorType.NOT_SUPPORTED, "propagationPolicy", detail, policy
    )


def _deleted(resource: Resource, written: Written) -> Document:
    """Answer a DELETE: the object while it waits for something (and every pod), else a Status."""
    document = written.document
    if not written.gone or resource.kind == "Pod":
        return copy_of(document)
    metadata = document["metadata"]
    return errors.success_status(resource.group, resource.plural, metadata["name"], metadata["uid"])
