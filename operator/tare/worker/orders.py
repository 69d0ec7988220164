"""What this worker is told: its order and identity, from the environment or from a file.

Everything that can be wrong with it is found here, before the worker talks to anybody, and said in
one line that names the field.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.api import names
from tare.measure.goodput import limits_in_nanoseconds
from tare.measure.messages import Identity
from tare.measure.wire import WireError, decode
from tare.net.auth import BadHeaderError, resolve
from tare.net.origin import BadUrlError, BaseUrl, parse_base_url, parse_origin
from tare.net.tls import BadAuthorityError, client_context
from tare.plan.order import TlsOrder, WorkOrder

if TYPE_CHECKING:
    from tare.plan.order import PhaseOrder

__all__ = ["Assignment", "OrderError", "read_assignment", "read_inbox"]


class OrderError(ValueError):
    """The order, or what belongs to it, cannot be followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """An order that was checked, and who follows it."""

    order: WorkOrder
    identity: Identity
    bases: tuple[BaseUrl, ...]
    """The target's URLs, taken apart."""
    headers: Mapping[str, str]
    """Headers of each request, secrets filled in."""
    tls: ssl.SSLContext | None
    """How certificates are checked; None when no URL is https."""
    limits: Mapping[str, int]
    """Goodput limits in nanoseconds."""

    @property
    def server_name(self) -> str | None:
        """Whom certificates must be for: the `Host` header's name; None for that of the URL."""
        host = self.order.target.host
        return None if host is None else parse_origin(f"https://{host}").host


def read_assignment(environ: Mapping[str, str], raw: bytes | None = None) -> Assignment:
    """Read the order from `raw`, else from the environment, and check it.

    Raises:
        OrderError: what is wrong, in one line.
    """
    source = raw if raw is not None else _required(environ, names.ENV_ORDER)
    try:
        order = decode(WorkOrder, source)
        return Assignment(
            order=order,
            identity=_identity(order, environ),
            bases=_bases(order),
            headers=resolve(order.target.headers, environ),
            tls=_tls(order, environ),
            limits=limits_in_nanoseconds(order.goodput),
        )
    except (WireError, BadHeaderError, BadUrlError) as error:
        raise OrderError(str(error)) from error
    except ValueError as error:
        raise OrderError(str(error)) from error


def read_inbox(environ: Mapping[str, str]) -> tuple[BaseUrl, str]:
    """Read where the operator's inbox is, and the token for it.

    Raises:
        OrderError: a variable is missing or no URL.
    """
    try:
        base = parse_base_url(_required(environ, names.ENV_INBOX))
    except BadUrlError as error:
        raise OrderError(f"{names.ENV_INBOX}: {error}") from error
    return base, _required(environ, names.ENV_TOKEN)


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise OrderError(f"{name} is not set; the operator sets it on a worker's container")
    return value


def _identity(order: WorkOrder, environ: Mapping[str, str]) -> Identity:
    text = environ.get(names.ENV_INDEX, "0")
    index = int(text) if text.isdigit() else -1
    if not 0 <= index < order.workers:
        raise OrderError(f"{names.ENV_INDEX}: {text!r} is no index of {order.workers} workers")
    if order.processes < 1:
        raise OrderError(f"WorkOrder.processes: {order.processes} is not allowed; give 1 or more")
    return Identity(
        run_uid=order.run_uid,
        cell=order.cell,
        trial=order.trial,
        attempt=order.attempt,
        index=index,
        pod_uid=environ.get(names.ENV_POD_UID, ""),
        pod_name=environ.get(names.ENV_POD_NAME, ""),
    )


def _tls(order: WorkOrder, environ: Mapping[str, str]) -> ssl.SSLContext | None:
    """Read the settings for https; making a context takes milliseconds, so only where needed."""
    settings = order.target.tls or TlsOrder()
    if not any(url.startswith("https") for url in order.target.urls):
        return None
    name = settings.authority_env
    try:
        authority = None if name is None else _required(environ, name)
        return client_context(authority=authority, verify=settings.verify)
    except BadAuthorityError as error:
        raise OrderError(f"{name}: {error}") from error


def _bases(order: WorkOrder) -> tuple[BaseUrl, ...]:
    if not order.target.urls:
        raise OrderError("WorkOrder.target.urls is empty; give one or more base URLs")
    if not order.phases:
        raise OrderError("WorkOrder.phases is empty; give one or more phases")
    for index, phase in enumerate(order.phases):
        if (problem := _phase_problem(phase)) is not None:
            raise OrderError(f"WorkOrder.phases[{index}] ({phase.name}): {problem}")
    if order.phases[-1].seamless:
        raise OrderError(
            f"WorkOrder.phases[{len(order.phases) - 1}] ({order.phases[-1].name}): seamless leads "
            "to a next phase, and there is none"
        )
    return tuple(parse_base_url(url) for url in order.target.urls)


def _phase_problem(phase: PhaseOrder) -> str | None:
    limit = phase.sessions if phase.type == "sessions" else phase.requests
    if limit is None and phase.duration is None:
        return "nothing ends it; give requests, sessions or duration, as its type allows"
    if phase.type in ("concurrency", "sessions"):
        if not phase.concurrency or phase.concurrency < 1 or phase.rate is not None:
            return f"type {phase.type} needs a concurrency of 1 or more, and takes no rate"
    elif not phase.rate or phase.rate <= 0 or phase.concurrency is not None:
        return f"type {phase.type} needs a rate above 0, and takes no concurrency"
    if phase.smoothness <= 0:
        return "smoothness must be above 0"
    if (ramp := phase.ramp) is not None:
        flat = ramp.type == "exponential" and not ramp.start
        if ramp.seconds <= 0 or ramp.start < 0 or flat:
            return "a ramp lasts more than 0 seconds, and an exponential one starts above 0"
    if not 0 <= phase.cancel_share <= 1 or phase.cancel_after < 0:
        return "cancel_share is a share of 0 to 1, and cancel_after is 0 seconds or more"
    return None
