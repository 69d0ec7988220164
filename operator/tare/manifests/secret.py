"""The Secret that hands the run's inbox token to its worker pods.

The operator creates it and never reads it: the token is an HMAC of the run's UID, so the operator
can compute it again at any time and needs no right to read Secrets.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from tare.api.names import child_name
from tare.manifests.metadata import Owner, child_metadata, run_labels

__all__ = ["TOKEN_KEY", "build_token_secret", "run_token", "token_secret_name"]

TOKEN_KEY = "token"  # noqa: S105 - the key in the Secret, not its value


def run_token(operator_key: bytes, run_uid: str) -> str:
    """Bearer token of a run's workers: the run's UID, and its HMAC-SHA256 under the operator's key.

    The UID is in front so that a token can be checked before a message is read.
    """
    digest = hmac.new(operator_key, run_uid.encode(), hashlib.sha256).hexdigest()
    return f"{run_uid}.{digest}"


def token_secret_name(owner: Owner) -> str:
    """Name of the Secret; part of the UID in it keeps a re-created run away from the old one's."""
    return child_name(owner.name, "token", owner.uid[:8])


def build_token_secret(owner: Owner, token: str) -> dict[str, Any]:
    """Build the Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": child_metadata(owner, token_secret_name(owner), run_labels(owner)),
        "type": "Opaque",
        "immutable": True,
        "stringData": {TOKEN_KEY: token},
    }
