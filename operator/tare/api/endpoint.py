"""`spec.endpoint`: the model service, how requests to it look, and its control hooks."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Discriminator, Field, StringConstraints, Tag

from tare.api.fields import (
    NO_VARIANT,
    DnsLabel,
    DnsName,
    FreeForm,
    HeaderName,
    HookPath,
    Line,
    Model,
    Rule,
    Seconds,
    Url,
    scalar_tag,
)
from tare.api.hooks import (
    ProfilerSetting,
    ResetKvCache,
    ResetSetting,
    Server,
    ServerProfiler,
    path_rule,
    resolve_profiler,
    resolve_reset,
)

__all__ = [
    "ConfigMapKey",
    "Endpoint",
    "Header",
    "HeaderSource",
    "SecretKey",
    "ServiceTarget",
    "Tls",
]

_CLIENT_HEADERS = (
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "transfer-encoding",
)
"""Set by the client itself; a second value would break the request's framing."""
_CLIENT_BODY = ("max_completion_tokens", "max_tokens", "messages", "model", "n", "prompt", "stream")
"""Body fields that the workload decides on."""
_NO_RESET: dict[Server, str] = {
    "dynamo": "Dynamo has no reset route from 1.6 on: name its engines as the target of the run "
    "(urls, or their own Service) with server: vllm or sglang, or as resetKvCache.target with the "
    "engines' own route as path, or set resetKvCache: false",
    "trtllm": "TensorRT-LLM has no reset route: set resetKvCache: false, or give the path of a "
    "build that has one as resetKvCache.path",
}


class ServiceTarget(Model):
    """A Kubernetes Service; its ready pods are the replicas."""

    name: DnsLabel
    """Name of the Service."""
    namespace: DnsLabel | None = None
    """Another namespace than the run's needs the operator's allow-list."""
    port: (
        Annotated[
            Annotated[int, Field(ge=1, le=65_535), Tag("<number>")]
            | Annotated[DnsLabel, Tag("<text>")],
            Discriminator(
                scalar_tag,
                custom_error_type=NO_VARIANT,
                custom_error_message="write the port's number or its name in the Service",
            ),
        ]
        | None
    ) = None
    """Number or name of the Service's port; unset: its only one, else the one named http."""


class SecretKey(Model):
    """One entry of a Secret in the run's namespace."""

    name: DnsName
    """Name of the Secret."""
    key: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    """Key in its data."""


class ConfigMapKey(Model):
    """One entry of a ConfigMap in the run's namespace."""

    name: DnsName
    """Name of the ConfigMap."""
    key: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    """Key in its data."""


class HeaderSource(Model):
    """Where a header's value comes from."""

    secret_key_ref: SecretKey
    """An entry of a Secret."""


class Header(Model):
    """A header of every request, control calls included."""

    RULES = (
        Rule(
            holds=lambda header: (header.value is None) != (header.value_from is None),
            cel="has(self.value) != has(self.valueFrom)",
            message="a header has exactly one of value and valueFrom; remove or add one",
        ),
        Rule(
            field="name",
            holds=lambda header: header.name.lower() not in _CLIENT_HEADERS,
            cel=f"!(self.name.lowerAscii() in {list(_CLIENT_HEADERS)})",
            message="this header is set by the client itself; remove it",
        ),
    )

    name: HeaderName
    """Name of the header."""
    value: Line | None = None
    """Its value. Use valueFrom for secrets: everybody who may read the run sees this one."""
    value_from: HeaderSource | None = None
    """Take the value from a Secret."""


class Tls(Model):
    """How the certificate of the model service is checked."""

    RULES = (
        Rule(
            holds=lambda tls: tls.ca_secret_ref is None or not tls.insecure_skip_verify,
            cel="!has(self.caSecretRef) || !has(self.insecureSkipVerify) || "
            "!self.insecureSkipVerify",
            message="insecureSkipVerify accepts any certificate, so that caSecretRef checks "
            "nothing; remove one of the two",
        ),
    )

    ca_secret_ref: SecretKey | None = None
    """The authority that signed it, as PEM; the only one that is trusted then."""
    insecure_skip_verify: bool = False
    """Accept any certificate."""


def _sends_key_twice(endpoint: Endpoint) -> bool:
    if endpoint.api_key_secret_ref is None:
        return False
    key_header = (endpoint.api_key_header or "Authorization").lower()
    return any(header.name.lower() == key_header for header in endpoint.headers)


def _names_servers(url: str) -> bool:
    """Whether host and port can be told apart, which the pattern does not say of IPv6."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _can_reset(server: Server, endpoint: Endpoint) -> bool:
    """Whether a reset that is asked for exists on `server`.

    An own path helps TensorRT-LLM; Dynamo's is for its engines, so they must be named as well.
    """
    if endpoint.server != server or endpoint.reset is None:
        return True
    if getattr(endpoint.reset_kv_cache, "path", None) is None:
        return False
    return server == "trtllm" or endpoint.reset.target is not None


def _knows_pods(hook: str, endpoint: Endpoint) -> bool:
    """Whether ports alone, if they are a hook's target, are those of known pods."""
    settings = getattr(endpoint, hook)
    target = settings.target if settings is not None else None
    alone = target is not None and not (target.service or target.selector or target.urls)
    return endpoint.service is not None or not alone


class Endpoint(Model):
    """The model service."""

    RULES = (
        Rule(
            holds=lambda endpoint: (
                sum(
                    target is not None for target in (endpoint.service, endpoint.url, endpoint.urls)
                )
                == 1
            ),
            cel="[has(self.service), has(self.url), has(self.urls)].filter(x, x).size() == 1",
            message="name the target by exactly one of service, url and urls",
        ),
        Rule(
            holds=lambda endpoint: all(map(_names_servers, endpoint.given_urls)),
            message="a URL has a host, an IPv6 address in brackets, and a port from 1 to 65535",
        ),
        Rule(
            field="tls",
            holds=lambda endpoint: (
                endpoint.tls is None or all(u.startswith("https:") for u in endpoint.given_urls)
            ),
            cel="!has(self.tls) || ((!has(self.url) || self.url.startsWith('https:')) && "
            "(!has(self.urls) || self.urls.all(u, u.startsWith('https:'))))",
            message="tls is for https; write https:// in the URL, or remove tls",
        ),
        Rule(
            field="via",
            holds=lambda endpoint: endpoint.via == "Service" or endpoint.service is not None,
            cel="!has(self.via) || self.via == 'Service' || has(self.service)",
            message="Endpoints are the pods of a service; several urls are sent to in turn anyway",
        ),
        Rule(
            field="urls",
            holds=lambda endpoint: len(set(endpoint.urls or ())) == len(endpoint.urls or ()),
            message="every URL stands once; remove the second one",
        ),
        Rule(
            field="headers",
            holds=lambda endpoint: (
                len({header.name.lower() for header in endpoint.headers}) == len(endpoint.headers)
            ),
            cel="!has(self.headers) || self.headers.all(h, "
            "self.headers.exists_one(g, g.name.lowerAscii() == h.name.lowerAscii()))",
            message="every header stands once; upper and lower case are the same",
        ),
        Rule(
            field="headers",
            holds=lambda endpoint: not _sends_key_twice(endpoint),
            cel="!has(self.apiKeySecretRef) || !has(self.headers) || "
            "!self.headers.exists(h, h.name.lowerAscii() == (has(self.apiKeyHeader) "
            "? self.apiKeyHeader.lowerAscii() : 'authorization'))",
            message="apiKeySecretRef sends this header already; remove one of the two",
        ),
        Rule(
            field="apiKeyHeader",
            holds=lambda endpoint: (
                endpoint.api_key_secret_ref is not None or endpoint.api_key_header is None
            ),
            cel="!has(self.apiKeyHeader) || has(self.apiKeySecretRef)",
            message="apiKeyHeader names the header of the key; add apiKeySecretRef or remove it",
        ),
        Rule(
            field="extraBody",
            holds=lambda endpoint: endpoint.extra_body.keys().isdisjoint(_CLIENT_BODY),
            message="the workload decides on "
            + ", ".join(_CLIENT_BODY)
            + "; remove them, and set lengths in dataset.prompts",
        ),
        path_rule("metricsPath", "metrics_path"),
        *(
            Rule(field="resetKvCache", holds=partial(_can_reset, server), message=advice)
            for server, advice in _NO_RESET.items()
        ),
        Rule(
            field="resetKvCache",
            holds=lambda endpoint: (
                endpoint.server in ("vllm", "generic")
                or not getattr(endpoint.reset_kv_cache, "reset_external", False)
            ),
            message="resetExternal is a switch of vLLM: remove it, or give the server's own route "
            "as resetKvCache.path",
        ),
        Rule(
            field="serverProfiler",
            holds=lambda endpoint: (
                endpoint.server == "vllm"
                or getattr(endpoint.server_profiler, "max_iterations", None) is None
            ),
            message="maxIterations is a field of vLLM: set server: vllm, or write the server's "
            "own limit in startBody, as num_steps: 5 for SGLang",
        ),
        *(
            Rule(
                field=name,
                holds=partial(_knows_pods, attribute),
                message="ports alone are ports of a Service's pods, and the endpoint is given by "
                "URL: name the engines by service, selector or urls",
            )
            for name, attribute in (("resetKvCache", "reset"), ("serverProfiler", "profiler"))
        ),
    )

    service: ServiceTarget | None = None
    """A Service in the cluster."""
    url: Url | None = None
    """One base URL; a trailing /v1 is the same as none. Needs the operator's allow-list."""
    urls: (
        Annotated[
            tuple[Url, ...],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Several base URLs that are sent to in turn. Needs the operator's allow-list."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Name of the model as the server lists it."""
    type: Literal["chat", "completions"] = "chat"
    """API that requests use: /v1/chat/completions or /v1/completions."""
    streaming: bool = True
    """Ask for a stream; without one there is no time to the first token."""
    server: Server = "generic"
    """Kind of the server: sets paths of hooks, rules of success, names of metrics."""
    api_key_secret_ref: SecretKey | None = None
    """Secret with the API key."""
    api_key_header: HeaderName | None = None
    """Header that carries the key alone, as x-api-key; unset: `Authorization: Bearer KEY`."""
    headers: Annotated[
        tuple[Header, ...],
        Field(
            max_length=32,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    """Headers of every request."""
    tls: Tls | None = None
    """How the server's certificate is checked; even an empty object means https for a service."""
    extra_body: FreeForm = Field(default_factory=dict)
    """Fields added to the body of every request, as temperature: 0."""
    request_timeout_seconds: Seconds = 600
    """Limit from the first byte sent to the end of the answer."""
    idle_timeout_seconds: Seconds = 60
    """Limit of a silence within an answer."""
    ready_timeout_seconds: Seconds = 600
    """How long the target may take to be ready and to serve the model."""
    via: Literal["Service", "Endpoints"] = "Service"
    """Service: through its address, as clients do. Endpoints: to each ready pod in turn."""
    reset_kv_cache: ResetSetting = False
    """Empty the KV cache of every replica before each cell: false, true or an object."""
    metrics_path: HookPath | None = None
    """Path of the servers' Prometheus metrics; unset: /metrics, for TensorRT-LLM
    /prometheus/metrics."""
    server_profiler: ProfilerSetting = False
    """Run the server's profiler around profiling phases: false, true or an object."""

    @property
    def reset(self) -> ResetKvCache | None:
        """The reset with every default filled in; None when it is off."""
        return resolve_reset(self.reset_kv_cache, self.server)

    @property
    def profiler(self) -> ServerProfiler | None:
        """The profiler with every default filled in; None when it is off."""
        return resolve_profiler(self.server_profiler)

    @property
    def given_urls(self) -> tuple[str, ...]:
        """`url` or `urls` as written; empty for a Service. `net.origin` takes them apart."""
        return (self.url,) if self.url is not None else self.urls or ()
