"""Tables: what `kubectl get` prints, one row an object.

https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.devcluster.apiserver.documents import Clock, Document, parse_time
from tare.devcluster.apiserver.jsonpath import find
from tare.devcluster.apiserver.resources import Column, Resource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = [
    "NAME_COLUMN",
    "age_column",
    "custom_columns",
    "human_age",
    "human_duration",
    "render_table",
]

_UNKNOWN = "<unknown>"

NAME_COLUMN = Column(name="Name", format="name", cell=lambda document: document["metadata"]["name"])


def render_table(
    resource: Resource,
    documents: Sequence[Document],
    metadata: Document,
    *,
    include: str = "Metadata",
    header: bool = True,
) -> Document:
    """Render objects as a `Table`; `include` says how much of each object goes along."""
    columns = resource.columns
    definitions = [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description or column.name,
            "priority": column.priority,
        }
        for column in columns
    ]
    rows = [
        {"cells": [column.cell(document) for column in columns], **_object(document, include)}
        for document in documents
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions if header else [],
        "rows": rows,
    }


def _object(document: Document, include: str) -> Document:
    match include:
        case "None":
            return {}
        case "Object":
            return {"object": document}
        case _:
            partial = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": document["metadata"],
            }
            return {"object": partial}


def age_column(clock: Clock) -> Column:
    """Return the column that says how old an object is."""
    return Column(
        name="Age",
        cell=lambda document: human_age(document["metadata"]["creationTimestamp"], clock()),
    )


def custom_columns(columns: Sequence[Document], clock: Clock) -> list[Column]:
    """Turn a CRD's `additionalPrinterColumns` into columns; without any there is the age."""
    if not columns:
        return [NAME_COLUMN, age_column(clock)]
    return [NAME_COLUMN, *(_custom_column(column, clock) for column in columns)]


def _custom_column(column: Document, clock: Clock) -> Column:
    path, kind = column["jsonPath"], column["type"]

    def cell(document: Document) -> Any:
        found = find(path, document)
        if not found:
            return None
        if kind == "date":
            return human_age(found[0], clock())
        return found[0] if kind != "string" or isinstance(found[0], str) else str(found[0])

    return Column(
        name=column["name"],
        type=kind,
        format=column.get("format", ""),
        description=column.get("description", ""),
        priority=column.get("priority", 0),
        cell=cell,
    )


def human_age(text: Any, now: datetime) -> str:
    """Say how long ago a timestamp was."""
    try:
        return human_duration((now - parse_time(text)).total_seconds())
    except (TypeError, ValueError):
        return _UNKNOWN


def human_duration(seconds: float) -> str:
    """Write a duration as kubectl does: `119s`, `9m59s`, `2h5m`, `3d4h`, `400d`."""
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 0:
        return "0s"
    if whole < 2 * 60:
        return f"{whole}s"
    if minutes < 10:  # noqa: PLR2004 - kubectl's own steps
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:  # noqa: PLR2004 - kubectl's own steps
        return _two(hours, "h", minutes % 60, "m")
    if hours < 2 * 24:
        return f"{hours}h"
    if days < 8:  # noqa: PLR2004 - kubectl's own steps
        return _two(days, "d", hours % 24, "h")
    return f"{days}d"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
