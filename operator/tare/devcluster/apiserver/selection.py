"""Which objects a list or watch asks for: namespace, label selector and field selector together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.devcluster.apiserver.selectors import Predicate, field_selector, label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.devcluster.apiserver.documents import Document
    from tare.devcluster.apiserver.resources import Resource

__all__ = ["Selection"]

_NAMESPACE = frozenset({"metadata.namespace"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A namespace (None: all of them) and the selectors' predicates."""

    namespace: str | None
    predicates: tuple[Predicate, ...]

    @classmethod
    def parse(
        cls,
        resource: Resource,
        namespace: str | None,
        query: Mapping[str, str],
        name: str = "",
    ) -> Selection:
        """Read the selectors of a query; 400 when they are malformed or not supported.

        `name` is the one of a watch on a single object.
        """
        predicates: list[Predicate] = []
        if text := query.get("labelSelector"):
            predicates.append(label_selector(text))
        if text := query.get("fieldSelector"):
            predicates.append(field_selector(text, _selectable(resource)))
        if name:
            predicates.append(lambda document: document["metadata"]["name"] == name)
        return cls(namespace=namespace, predicates=tuple(predicates))

    def matches(self, document: Document) -> bool:
        """Tell whether an object is asked for."""
        namespace = document["metadata"].get("namespace", "")
        if self.namespace not in {None, namespace}:
            return False
        return all(predicate(document) for predicate in self.predicates)


def _selectable(resource: Resource) -> frozenset[str]:
    own = frozenset({"metadata.name"})
    return own | resource.selectable | (_NAMESPACE if resource.namespaced else frozenset())
