"""Carrying out a pass's actions on the Kubernetes API; each is safe to repeat.

Names are deterministic: a create that meets its own object (409 with our UID as owner) was carried
out before, whatever its answer was. An object of the same name that belongs to an earlier run is
still being deleted; the pass is repeated until it is gone.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, assert_never

from tare.api import names
from tare.decide.actions import (
    Action,
    AddProfilerFinalizer,
    CreateJob,
    DeleteJob,
    Event,
    RemoveProfilerFinalizer,
    StartOp,
    TakeBack,
)
from tare.decide.facts import OpKind
from tare.decide.stored import run_of
from tare.endpoint.errors import TargetError
from tare.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Terminating,
    Unavailable,
)
from tare.kube.port import EVENT, JOB, RUN, SECRET, Document
from tare.manifests.event import build_event
from tare.manifests.job import build_job
from tare.manifests.order import build_order
from tare.manifests.secret import build_token_secret, run_token
from tare.net.auth import authority_of, headers_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tare.decide.acceptance import Accepted
    from tare.decide.children import TrialKey
    from tare.manifests.metadata import Owner
    from tare.runtime.children import Children
    from tare.runtime.context import Context
    from tare.runtime.operations import Operations

__all__ = ["Effects", "post_events"]


class Effects:
    """Actions of one run."""

    def __init__(
        self,
        context: Context,
        owner: Owner,
        accepted: Accepted,
        children: Children,
        operations: Operations,
    ) -> None:
        self._context = context
        self._owner = owner
        self._accepted = accepted
        self._children = children
        self._operations = operations
        self._has_secret = False
        # Workers that go straight to the pods must know those of their own trial.
        self.prestart = all(cell.spec.endpoint.via == "Service" for cell in accepted.cells)
        """False too once pods of a next trial had to be taken back."""
        self.jobs_refused: dict[TrialKey, str] = {}
        """Why the API server refused the Jobs of attempts, where it did."""

    async def perform(self, action: Action, document: Document) -> Document:
        """Carry an action out; returns the run as it is stored then."""
        match action:
            case CreateJob(key):
                await self._create_job(key)
            case DeleteJob(name, uid):
                await self._delete_job(name, uid)
            case TakeBack(name, uid):
                await self._delete_job(name, uid)
                self.prestart = False
            case StartOp(op):
                if op.kind is OpKind.PREFLIGHT and op.key is not None:
                    # What its Job lacked when it was tried ahead may be there now.
                    self.jobs_refused.pop(op.key, None)
                self._operations.start(op, run_of(document, self._accepted))
            case AddProfilerFinalizer():
                return await self._set_finalizer(document, present=True)
            case RemoveProfilerFinalizer():
                return await self._set_finalizer(document, present=False)
            case _:
                assert_never(action)
        return document

    async def _create_job(self, key: TrialKey) -> None:
        cell = self._accepted.cells[key.cell]
        try:
            system_prompt = await self._operations.system_prompt(cell.spec.dataset)
        except TargetError as error:
            self.jobs_refused[key] = str(error)
            return
        address = await self._operations.address(cell.spec.endpoint)
        endpoint = cell.spec.endpoint.model_dump(by_alias=True, exclude_none=True)
        headers = headers_of(endpoint)
        order = build_order(
            self._owner,
            key,
            cell.spec,
            address=address,
            headers=headers,
            trials=len(self._accepted.cells) * cell.spec.trials.count,
            system_prompt=system_prompt,
        )
        body = build_job(
            self._owner,
            order,
            workers=cell.spec.workers,
            worker_image=self._context.settings.worker,
            headers=headers,
            authority=authority_of(endpoint),
            queue_name=self._accepted.spec.queue_name,
        )
        try:
            await self._create_secret()
            self._children.see_job(await self._create_or_find(body))
        except Terminating:
            self._operations.namespace_ends = True
        except (Forbidden, Invalid) as error:
            self.jobs_refused[key] = str(error)
        else:
            self.jobs_refused.pop(key, None)

    async def _create_or_find(self, body: Document) -> Document:
        name, namespace = body["metadata"]["name"], self._owner.namespace
        try:
            return await self._context.cluster.create(JOB, namespace, body)
        except AlreadyExists:
            found = await self._find(name)
        owners = {reference["uid"] for reference in found["metadata"].get("ownerReferences") or ()}
        if self._owner.uid not in owners:
            raise Unavailable(f"the Job {name} of an earlier run is still there")
        return found

    async def _find(self, name: str) -> Document:
        """Read the Job that has our name; one that goes meanwhile makes room for ours."""
        try:
            return await self._context.cluster.get(JOB, self._owner.namespace, name)
        except NotFound as error:
            raise Unavailable(f"the Job {name} went while it was read") from error

    async def _create_secret(self) -> None:
        """Create the token Secret once; its name holds part of our UID, so it can only be ours."""
        if self._has_secret:
            return
        token = run_token(self._context.settings.operator_key, self._owner.uid)
        with contextlib.suppress(AlreadyExists):
            secret = build_token_secret(self._owner, token)
            await self._context.cluster.create(SECRET, self._owner.namespace, secret)
        self._has_secret = True

    async def _delete_job(self, name: str, uid: str) -> None:
        await self._context.cluster.delete(JOB, self._owner.namespace, name, uid=uid)
        self._children.job_deleted(uid)

    async def _set_finalizer(self, document: Document, *, present: bool) -> Document:
        """Add or remove our finalizer; on a conflict with Kopf's own patches the pass repeats."""
        metadata = document["metadata"]
        others = [f for f in metadata.get("finalizers") or () if f != names.FINALIZER_PROFILER]
        wanted = [*others, names.FINALIZER_PROFILER] if present else others
        namespace, name = metadata["namespace"], metadata["name"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": wanted}}
        try:
            return await self._context.cluster.patch(RUN, namespace, name, body)
        except Conflict:
            return await self._context.cluster.get(RUN, namespace, name)


async def post_events(context: Context, owner: Owner, events: Iterable[Event]) -> bool:
    """Post events about a run; one that is lost does no harm.

    Returns False when they are refused since the namespace is being deleted: of that, a lost worker
    may be the first sign.
    """
    now = context.clock.wall().timestamp()
    for event in events:
        try:
            body = build_event(owner, event, now=now)
            await context.cluster.create(EVENT, owner.namespace, body)
        except Terminating:
            return False
        except KubeError:
            continue
    return True
