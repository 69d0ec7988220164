"""Values of the headers that the spec takes from Secrets, read for the operator's own calls.

The operator has no right to read Secrets until a namespace grants it, so the refusal is the usual
case and must say the command that ends it. Values leave this module only inside the mapping.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from tare.api.reasons import Reason
from tare.endpoint.errors import TargetError
from tare.kube.errors import Forbidden, NotFound
from tare.kube.port import SECRET
from tare.net.auth import BadHeaderError, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tare.kube.port import Cluster, Document
    from tare.net.auth import Header, SecretKey

__all__ = ["READER_ROLE", "read_headers", "read_text"]

READER_ROLE = "tare-secret-reader"
"""ClusterRole of the chart: get Secrets."""

_USER = re.compile(r'User "([^"]+)"')
_SERVICE_ACCOUNT = "system:serviceaccount:"


async def read_headers(
    cluster: Cluster, namespace: str, headers: Iterable[Header]
) -> dict[str, str]:
    """Write out the request headers, reading each Secret once.

    Raises:
        TargetError: a Secret or key is missing or unreadable, or its value is no header value.
            Final only without the right to read it: somebody has to type the command, while a
            Secret that is applied together with the run is there in a moment.
    """
    headers = tuple(headers)
    documents: dict[str, Document] = {}
    values = {}
    for header in headers:
        if header.secret is None or header.env is None:
            continue
        name = header.secret.name
        if name not in documents:
            documents[name] = await _read(cluster, namespace, name)
        values[header.env] = _value(documents[name], namespace, header.secret)
    try:
        return resolve(headers, values)
    except BadHeaderError as error:
        raise _missing(str(error)) from error


async def read_text(cluster: Cluster, namespace: str, secret: SecretKey) -> str:
    """Read one entry of a Secret.

    Raises:
        TargetError: as for `read_headers`.
    """
    return _value(await _read(cluster, namespace, secret.name), namespace, secret)


async def _read(cluster: Cluster, namespace: str, name: str) -> Document:
    try:
        return await cluster.get(SECRET, namespace, name)
    except NotFound as error:
        raise _missing(f"Secret {namespace}/{name} does not exist") from error
    except Forbidden as error:
        message = (
            f"the operator may not read Secret {namespace}/{name}; allow it with:"
            f" {_grant(str(error), namespace)}"
        )
        raise TargetError(Reason.SECRET_MISSING, message, final=True) from error


def _value(document: Document, namespace: str, secret: SecretKey) -> str:
    where = f"Secret {namespace}/{secret.name}"
    data = document.get("data") or {}
    if secret.key not in data:
        there = ", ".join(sorted(data)) or "none"
        raise _missing(f"{where} has no key {secret.key!r}; its keys are: {there}")
    try:
        return base64.b64decode(data[secret.key]).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise _missing(f"{where}: key {secret.key!r} holds no text") from error


def _grant(refusal: str, namespace: str) -> str:
    """Write the command for the user whom the API server named in its refusal."""
    match = _USER.search(refusal)
    user = match.group(1) if match else "USER"
    subject = f"--user={user}"
    if user.startswith(_SERVICE_ACCOUNT):
        subject = f"--serviceaccount={user.removeprefix(_SERVICE_ACCOUNT)}"
    return (
        f"kubectl create rolebinding {READER_ROLE} --namespace={namespace}"
        f" --clusterrole={READER_ROLE} {subject}"
    )


def _missing(message: str) -> TargetError:
    return TargetError(Reason.SECRET_MISSING, message, final=False)
