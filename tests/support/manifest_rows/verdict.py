"""Rows about the goals, the workers and the end of a run."""

from __future__ import annotations

from support.manifest_rows.row import DELETE, ENDPOINT, SECRET, Refuser, row

__all__ = ["GOALS", "WORKERS"]

_SCHEMA, _CEL, _OPERATOR = Refuser.SCHEMA, Refuser.CEL, Refuser.OPERATOR

GOALS = (
    row(
        "goal without a bound",
        {"spec.goals[1].max": DELETE},
        _SCHEMA,
        "spec.goals[1]",
        "exactly one of min and max",
    ),
    row(
        "goal with both bounds",
        {"spec.goals[1].min": 0},
        _SCHEMA,
        "spec.goals[1]",
        "exactly one of min and max",
    ),
    row(
        "goal on an unknown metric",
        {"spec.goals[1].metric": "time_to_first_tokens"},
        _SCHEMA,
        "spec.goals[1].metric",
        "did you mean time_to_first_token?",
    ),
    row(
        "goal on an unknown statistic",
        {"spec.goals[0].statistic": "p98"},
        _SCHEMA,
        "spec.goals[0].statistic",
        "'p98'",
        "p99",
    ),
    row(
        "goal that says no statistic",
        {"spec.goals[0].statistic": DELETE},
        _CEL,
        "spec.goals[0].statistic",
        "say which statistic",
    ),
    row(
        "percentile of one number",
        {"spec.goals[1].statistic": "p99"},
        _CEL,
        "spec.goals[1].statistic",
        "remove statistic",
    ),
    row(
        "latency without a unit",
        {"spec.goals[0].max": 500},
        _OPERATOR,
        "spec.goals[0].max",
        "500",
        "500ms",
    ),
    row(
        "unit that does not exist",
        {"spec.goals[0].max": "500 ms"},
        _SCHEMA,
        "spec.goals[0].max",
        "'500 ms'",
    ),
    row(
        "share of more than all",
        {"spec.goals[1].max": "120%"},
        _OPERATOR,
        "spec.goals[1].max",
        "'120%'",
        "0 to 1",
    ),
    row(
        "cost goal without a price",
        {"spec.goals": [{"metric": "monthly_cost", "max": "2000"}]},
        _CEL,
        "spec.goals",
        "needs spec.cost",
    ),
    row(
        "goodput goal without limits",
        {"spec.goals": [{"metric": "goodput", "min": "3"}]},
        _CEL,
        "spec.goals",
        "needs spec.goodput",
    ),
    row(
        "token goal without a stream",
        {f"{ENDPOINT}.streaming": False},
        _CEL,
        "spec.goals",
        "endpoint.streaming: true",
    ),
    row("goodput without limits", {"spec.goodput": {}}, _SCHEMA, "spec.goodput", "at least one"),
    row(
        "goodput limit without a unit",
        {"spec.goodput": {"time_to_first_token": 0.5}},
        _SCHEMA,
        "spec.goodput.time_to_first_token",
        "0.5 is no text",
    ),
    row(
        "price that is a number",
        {"spec.cost": {"usdPerHour": 2.608}},
        _SCHEMA,
        "spec.cost.usdPerHour",
        "put it in quotes",
    ),
    row(
        "error rate of more than all",
        {"spec.stopOn": {"errorRate": 20}},
        _OPERATOR,
        "spec.stopOn.errorRate",
        "20",
        "as 1%",
    ),
)

WORKERS = (
    row(
        "no workers",
        {"spec.workers.replicas": 0},
        _SCHEMA,
        "spec.workers.replicas",
        "0 is out of range",
    ),
    row(
        "label of the operator",
        {"spec.workers.labels": {"tare.dev/run": "mine"}},
        _CEL,
        "spec.workers.labels",
        "set by the operator",
    ),
    row(
        "label key that is none",
        {"spec.workers.nodeSelector": {"a b": "c"}},
        _OPERATOR,
        'spec.workers.nodeSelector["a b"]',
        "label key",
    ),
    row(
        "variable of the operator",
        {"spec.workers.env": [{"name": "TARE_TOKEN", "value": "x"}]},
        _CEL,
        "spec.workers.env[0].name",
        "set by the operator",
    ),
    row(
        "variable with two sources",
        {
            "spec.workers.env": [
                {"name": "A", "value": "hunter2", "valueFrom": {"secretKeyRef": SECRET}}
            ]
        },
        _CEL,
        "spec.workers.env[0]",
        "value or valueFrom, not both",
    ),
    row(
        "variable from nowhere",
        {"spec.workers.env": [{"name": "A", "valueFrom": {}}]},
        _CEL,
        "spec.workers.env[0].valueFrom",
        "exactly one of secretKeyRef and configMapKeyRef",
    ),
    row("queue that is none", {"spec.queueName": "A_b"}, _SCHEMA, "spec.queueName", "LocalQueue"),
    row(
        "deadline of 0",
        {"spec.activeDeadlineSeconds": 0},
        _SCHEMA,
        "spec.activeDeadlineSeconds",
        "0 is out of range",
    ),
    row(
        "life of less than nothing",
        {"spec.ttlSecondsAfterFinished": -1},
        _SCHEMA,
        "spec.ttlSecondsAfterFinished",
        "-1 is out of range",
    ),
)
