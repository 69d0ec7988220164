"""What can go wrong at the Kubernetes API, translated once from the client library.

Alphabetical; each class is one meaning that callers treat alike. `Unavailable` means *outcome
unknown*: the request may have been carried out, so everything that is sent must be safe to repeat.
"""

from __future__ import annotations

__all__ = [
    "AlreadyExists",
    "Conflict",
    "Forbidden",
    "Invalid",
    "KubeError",
    "NotFound",
    "Terminating",
    "TooLarge",
    "Unavailable",
]


class KubeError(Exception):
    """The API server refused, or could not be asked; `str()` is one sentence."""


class AlreadyExists(KubeError):
    """409: the name is taken."""


class Conflict(KubeError):
    """409: the object changed since it was read."""


class Forbidden(KubeError):
    """403: the operator lacks a right, or an admission rule or quota refused the object."""


class Invalid(KubeError):
    """400 or 422: the API server refused the document."""


class NotFound(KubeError):
    """404."""


class Terminating(Forbidden):
    """403: the namespace is being deleted, so that nothing can be created in it any more."""


class TooLarge(KubeError):
    """413, or etcd's refusal of a large request: cut the document, do not repeat it."""


class Unavailable(KubeError):
    """Network error, 429 or 5xx: outcome unknown, try again."""
