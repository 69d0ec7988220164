"""Panels and dashboards in Grafana's JSON, as much of it as ours need.

Plain dictionaries: the JSON model is stable, and the SDK for it would be a dependency that pip
resolves to its oldest branch. Panels flow from left to right in a grid of 24 columns, so that one
can be added without moving the others.

https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Form", "Panel", "Query", "Row", "Unit", "Variable", "dashboard"]

Json = dict[str, Any]

_COLUMNS = 24
_SCHEMA_VERSION = 41
"""Of Grafana 11; later ones migrate it on load."""
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class Unit(StrEnum):
    """Grafana's names of units; `NONE` is a choice too, so that no panel forgets its unit."""

    COUNT = "short"
    NONE = "none"
    PER_SECOND = "reqps"
    RATIO = "percentunit"
    SECONDS = "s"
    TOKENS_PER_SECOND = "cps"


class Form(StrEnum):
    """How a panel looks."""

    BARS = "bargauge"
    """One bar for each series, its value now."""
    LINES = "timeseries"
    NAME = "name"
    """The legend of the one series, large: for what is told by a label."""
    STATES = "stat"
    """One value for each series."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and what its series are called."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel."""

    title: str
    description: str
    form: Form
    unit: Unit
    queries: Sequence[Query]
    width: int = 8
    values: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Value to text and colour, for numbers that stand for words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A headline and the panels below it, all of one height."""

    title: str
    panels: Sequence[Panel]
    height: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice at the top, filled with the values of a label."""

    name: str
    query: str


def dashboard(
    *,
    uid: str,
    title: str,
    description: str,
    variables: Sequence[Variable],
    rows: Sequence[Row],
) -> Json:
    """Lay out a dashboard; the same arguments always give the same JSON."""
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["tare"],
        "schemaVersion": _SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource_variable(), *map(_variable, variables)]},
        "annotations": {"list": []},
        "links": [],
        "panels": _layout(rows),
    }


def _layout(rows: Sequence[Row]) -> list[Json]:
    panels: list[Json] = []
    top = 0
    for row in rows:
        panels.append(_headline(row.title, top))
        top += 1
        left = 0
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                left, top = 0, top + row.height
            place = {"x": left, "y": top, "w": panel.width, "h": row.height}
            panels.append(_panel(panel, place))
            left += panel.width
        top += row.height
    return [{"id": number, **panel} for number, panel in enumerate(panels, start=1)]


def _headline(title: str, top: int) -> Json:
    place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
    return {"type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, place: Json) -> Json:
    lines = panel.form is Form.LINES
    defaults: Json = {"unit": panel.unit.value, "mappings": _mappings(panel.values)}
    if lines:
        defaults |= {"min": 0, "custom": {"fillOpacity": 10, "showPoints": "auto"}}
    else:
        defaults |= {"color": {"mode": "thresholds"}, "thresholds": _NO_THRESHOLDS}
    return {
        "type": "stat" if panel.form is Form.NAME else panel.form.value,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _OPTIONS[panel.form],
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _DATASOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
                "instant": not lines,
                "range": lines,
            }
            for number, query in enumerate(panel.queries)
        ],
    }


def _mappings(values: Mapping[int, tuple[str, str]]) -> list[Json]:
    if not values:
        return []
    options = {
        str(value): {"index": index, "text": text, "color": color}
        for index, (value, (text, color)) in enumerate(values.items())
    }
    return [{"type": "value", "options": options}]


def _datasource_variable() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(variable: Variable) -> Json:
    return {
        "name": variable.name,
        "label": variable.name.capitalize(),
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"qryType": 1, "query": variable.query, "refId": "A"},
        "refresh": 2,
        "sort": 1,
    }


_NO_THRESHOLDS: Json = {"mode": "absolute", "steps": [{"color": "blue", "value": None}]}
_LAST: Json = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_OPTIONS: dict[Form, Json] = {
    Form.BARS: {"orientation": "horizontal", "displayMode": "basic", "reduceOptions": _LAST},
    Form.LINES: {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    Form.NAME: {"textMode": "name", "graphMode": "none", "reduceOptions": _LAST},
    Form.STATES: {"textMode": "auto", "graphMode": "none", "reduceOptions": _LAST},
}
