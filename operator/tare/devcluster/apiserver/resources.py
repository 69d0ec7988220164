"""What the API server knows about a resource type: names, scope, schema, columns, own rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tare.devcluster.apiserver.documents import Document
from tare.devcluster.apiserver.errors import FieldError
from tare.devcluster.apiserver.schema import FREE, Schema

__all__ = ["ALL_VERBS", "CREATE_ONLY", "Column", "Propagation", "Resource", "ResourceKey"]

ResourceKey = tuple[str, str]
"""(group, plural)."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)
"""For reviews: they are answered and never stored."""


class Propagation(StrEnum):
    """What happens to the dependents of a deleted object."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """0: always shown; 1: with `-o wide`."""
    cell: Callable[[Document], Any]


def _nothing(_document: Document) -> None:
    return


def _no_faults(_new: Document, _old: Document | None) -> Sequence[FieldError]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resource:
    """One resource type in its only served version."""

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool = True
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    verbs: Sequence[str] = ALL_VERBS
    has_status: bool = False
    has_generation: bool = False
    custom: bool = False
    """A custom resource: validated by its schema, no strategic merge, stored as it is typed."""
    schema: Schema = FREE
    schema_name: str = ""
    """Name in the OpenAPI document."""
    openapi: Document | None = None
    """The raw schema of a custom resource, for the OpenAPI document."""
    columns: Sequence[Column] = ()
    selectable: frozenset[str] = frozenset()
    """Fields that a `fieldSelector` may name, beside name and namespace."""
    default_propagation: Propagation = Propagation.BACKGROUND
    fill: Callable[[Document], None] = _nothing
    """Sets the defaults of a built-in kind, in place, on creation and on update."""
    create: Callable[[Document], None] = _nothing
    """Sets what is given once, in place: cluster addresses, controller labels."""
    check: Callable[[Document, Document | None], Sequence[FieldError]] = _no_faults
    """Finds faults the schema cannot express; the second argument is the stored object."""

    @property
    def api_version(self) -> str:
        """Return `group/version`, or the bare version of the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> ResourceKey:
        """Return what identifies the type."""
        return self.group, self.plural
