"""Rows about the manifest itself, the target and the requests."""

from __future__ import annotations

from support.manifest_rows.row import DELETE, ENDPOINT, SECRET, Refuser, row

__all__ = ["AROUND", "REQUEST", "SPELLING", "TARGET"]

_SCHEMA, _CEL, _OPERATOR = Refuser.SCHEMA, Refuser.CEL, Refuser.OPERATOR

AROUND = (
    row(
        "no spec",
        {"spec": DELETE},
        _SCHEMA,
        "spec",
        "missing",
    ),
    row(
        "name with capitals",
        {"metadata.name": "Qwen"},
        _SCHEMA,
        "metadata.name",
        "'Qwen'",
        "lower-case",
    ),
    row(
        "name of 254 characters",
        {"metadata.name": "q" * 254},
        _SCHEMA,
        "metadata.name",
        "at most 253",
    ),
    row("unknown field beside spec", {"specs": {}}, _SCHEMA, "specs", "did you mean spec?"),
)

TARGET = (
    row(
        "two targets",
        {f"{ENDPOINT}.url": "http://qwen:8000"},
        _CEL,
        ENDPOINT,
        "exactly one of service, url and urls",
    ),
    row(
        "metrics at another host",
        {f"{ENDPOINT}.metricsPath": "http://other/metrics"},
        _SCHEMA,
        f"{ENDPOINT}.metricsPath",
        "start it with one '/'",
    ),
    row(
        "metrics path that holds a URL",
        {f"{ENDPOINT}.metricsPath": "/metrics?of=http://other"},
        _OPERATOR,
        f"{ENDPOINT}.metricsPath",
        "leave out '://'",
    ),
    row(
        "TLS settings of a plain URL",
        {
            f"{ENDPOINT}.service": DELETE,
            f"{ENDPOINT}.url": "http://qwen:8000",
            f"{ENDPOINT}.tls": {},
        },
        _CEL,
        f"{ENDPOINT}.tls",
        "write https://",
    ),
    row(
        "authority of certificates that nobody checks",
        {f"{ENDPOINT}.tls": {"caSecretRef": SECRET, "insecureSkipVerify": True}},
        _CEL,
        f"{ENDPOINT}.tls",
        "remove one of the two",
    ),
    row(
        "pods of a URL",
        {
            f"{ENDPOINT}.service": DELETE,
            f"{ENDPOINT}.url": "http://qwen:8000",
            f"{ENDPOINT}.via": "Endpoints",
        },
        _CEL,
        f"{ENDPOINT}.via",
        "pods of a service",
    ),
    row("no target", {f"{ENDPOINT}.service": DELETE}, _CEL, ENDPOINT, "exactly one of service"),
    row(
        "port that does not exist",
        {f"{ENDPOINT}.service.port": 99_999},
        _SCHEMA,
        f"{ENDPOINT}.service.port",
        "99999 is out of range",
        "65535",
    ),
    row(
        "service without a name",
        {f"{ENDPOINT}.service": {"port": 8000}},
        _SCHEMA,
        f"{ENDPOINT}.service.name",
        "missing",
        "name of the Service",
    ),
    row(
        "service in another namespace",
        {f"{ENDPOINT}.service.namespace": "models"},
        _OPERATOR,
        f"{ENDPOINT}.service.namespace",
        "'models'",
        "qwen.models.svc",
        "allow-list",
    ),
    row(
        "target that is not on the allow-list",
        {f"{ENDPOINT}.service": DELETE, f"{ENDPOINT}.url": "http://169.254.169.254/latest"},
        _OPERATOR,
        f"{ENDPOINT}.url",
        "169.254.169.254",
        "allow-list",
    ),
    row(
        "URL of another scheme",
        {f"{ENDPOINT}.service": DELETE, f"{ENDPOINT}.url": "ftp://qwen"},
        _SCHEMA,
        f"{ENDPOINT}.url",
        "'ftp://qwen'",
        "http://",
    ),
    row(
        "URL without a host",
        {f"{ENDPOINT}.service": DELETE, f"{ENDPOINT}.url": "http:///v1"},
        _SCHEMA,
        f"{ENDPOINT}.url",
        "a host",
    ),
    row(
        "URL with a password",
        {f"{ENDPOINT}.service": DELETE, f"{ENDPOINT}.urls": ["http://me:hunter2@qwen"]},
        _SCHEMA,
        f"{ENDPOINT}.urls[0]",
        "no user, password",
    ),
    row(
        "URL with a port that is none",
        {f"{ENDPOINT}.service": DELETE, f"{ENDPOINT}.url": "http://qwen:99999"},
        _OPERATOR,
        ENDPOINT,
        "65535",
    ),
    row(
        "the same URL twice",
        {f"{ENDPOINT}.service": DELETE, f"{ENDPOINT}.urls": ["http://q", "http://q"]},
        _SCHEMA,
        f"{ENDPOINT}.urls",
        "every URL stands once",
    ),
    row(
        "no model",
        {f"{ENDPOINT}.model": DELETE},
        _SCHEMA,
        f"{ENDPOINT}.model",
        "missing",
        "name of the model",
    ),
    row("empty model", {f"{ENDPOINT}.model": ""}, _SCHEMA, f"{ENDPOINT}.model", "empty"),
    row(
        "unknown type of API",
        {f"{ENDPOINT}.type": "embeddings"},
        _SCHEMA,
        f"{ENDPOINT}.type",
        "'embeddings'",
        "chat, completions",
    ),
)

REQUEST = (
    row(
        "header with two sources",
        {f"{ENDPOINT}.headers[0].valueFrom": {"secretKeyRef": SECRET}},
        _CEL,
        f"{ENDPOINT}.headers[0]",
        "exactly one of value and valueFrom",
    ),
    row(
        "header without a value",
        {f"{ENDPOINT}.headers": [{"name": "X-Team"}]},
        _CEL,
        f"{ENDPOINT}.headers[0]",
        "exactly one of value and valueFrom",
    ),
    row(
        "header that the client sets",
        {f"{ENDPOINT}.headers": [{"name": "Host", "value": "other"}]},
        _CEL,
        f"{ENDPOINT}.headers[0].name",
        "set by the client itself",
    ),
    row(
        "header with a line break",
        {f"{ENDPOINT}.headers[0].value": "hunter2\r\nX-Admin: yes"},
        _SCHEMA,
        f"{ENDPOINT}.headers[0].value",
        "one line of text",
    ),
    row(
        "one header in two spellings",
        {f"{ENDPOINT}.headers": [{"name": n, "value": "1"} for n in ("X-Team", "x-team")]},
        _CEL,
        f"{ENDPOINT}.headers",
        "upper and lower case are the same",
    ),
    row(
        "API key and Authorization header",
        {
            f"{ENDPOINT}.apiKeySecretRef": SECRET,
            f"{ENDPOINT}.headers": [{"name": "authorization", "value": "Bearer hunter2"}],
        },
        _CEL,
        f"{ENDPOINT}.headers",
        "apiKeySecretRef sends this header already",
    ),
    row(
        "header for a key that is not there",
        {f"{ENDPOINT}.apiKeyHeader": "x-api-key"},
        _CEL,
        f"{ENDPOINT}.apiKeyHeader",
        "add apiKeySecretRef",
    ),
    row(
        "body field that the workload sets",
        {f"{ENDPOINT}.extraBody": {"max_tokens": 5}},
        _OPERATOR,
        f"{ENDPOINT}.extraBody",
        "max_tokens",
        "dataset.prompts",
    ),
    row(
        "time-out of 0",
        {f"{ENDPOINT}.requestTimeoutSeconds": 0},
        _SCHEMA,
        f"{ENDPOINT}.requestTimeoutSeconds",
        "0 is out of range",
        "more than 0",
    ),
)

SPELLING = (
    row(
        "snake case",
        {f"{ENDPOINT}.request_timeout_seconds": 5},
        _SCHEMA,
        f"{ENDPOINT}.request_timeout_seconds",
        "camelCase",
        "requestTimeoutSeconds",
    ),
    row(
        "misspelt field",
        {f"{ENDPOINT}.steaming": True},
        _SCHEMA,
        f"{ENDPOINT}.steaming",
        "did you mean streaming?",
    ),
    row(
        "field at the wrong place",
        {"spec.isl": 512},
        _SCHEMA,
        "spec.isl",
        "isl stands at spec.dataset.prompts.isl",
    ),
    row(
        "misspelt field inside a union",
        {f"{ENDPOINT}.resetKvCache": {"timeout": 5}},
        _OPERATOR,
        f"{ENDPOINT}.resetKvCache.timeout",
        "did you mean timeoutSeconds?",
    ),
    row(
        "snake case inside a union",
        {f"{ENDPOINT}.serverProfiler": {"start_path": "/start_profile"}},
        _OPERATOR,
        f"{ENDPOINT}.serverProfiler.start_path",
        "startPath",
    ),
    row(
        "number in quotes",
        {"spec.workers.replicas": "2"},
        _SCHEMA,
        "spec.workers.replicas",
        "'2' is no whole number",
        "without quotes",
    ),
    row(
        "switch that is a text",
        {"spec.suspend": "yes"},
        _SCHEMA,
        "spec.suspend",
        "'yes' is no switch",
        "true or false",
    ),
)
