"""The model service of one run: `endpoint`'s functions with the run's settings and headers.

Secrets (headers, the certificate's authority) are read once and kept in memory: a namespace that is
being deleted may lose them before the profiler was stopped. The address found last is kept too, for
the Jobs.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tare.api.reasons import Reason
from tare.decide.facts import ResetResult
from tare.endpoint import discovery
from tare.endpoint import preflight as preflights
from tare.endpoint.client import ControlClient
from tare.endpoint.engines import find_engines
from tare.endpoint.errors import TargetError
from tare.endpoint.hooks.profiler import start_profiler, stop_profiler
from tare.endpoint.hooks.report import blame
from tare.endpoint.prompts import read_prompt
from tare.endpoint.scrape import scrape
from tare.endpoint.secrets import read_headers, read_text
from tare.endpoint.settling import Settling
from tare.kube.errors import KubeError, Unavailable
from tare.manifests.order import Address, build_target
from tare.measure.hooks import HookKind, HookReport, PreflightReport, Replica, Replicas
from tare.net.auth import Header, SecretKey, authority_of, headers_of
from tare.net.tls import BadAuthorityError, client_context
from tare.runtime.proving import proven_reset

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from tare.api.dataset import Dataset
    from tare.api.endpoint import ConfigMapKey, Endpoint, ServiceTarget, Tls
    from tare.api.hooks import HookTarget
    from tare.endpoint.client import Control
    from tare.manifests.metadata import Owner
    from tare.runtime.context import Context

__all__ = ["TargetService"]


_FRESH = 1.0
"""Seconds for which replicas that were found need not be looked for again."""


class TargetService:
    """Discovery, preflight and hooks of one run's target."""

    def __init__(self, context: Context, owner: Owner) -> None:
        self._context = context
        self._owner = owner
        self._headers: dict[tuple[Header, ...], dict[str, str]] = {}
        self._authorities: dict[SecretKey, str] = {}
        self._addresses: dict[tuple[str, ...], Address] = {}
        self._found: dict[tuple[str, ...], tuple[float, Replicas]] = {}
        """When which replicas were found last."""
        self._prompts: dict[ConfigMapKey | None, str] = {}
        self._no_metrics: set[str] = set()
        """Replicas whose metrics cannot be read, as the log says."""

    async def address(self, endpoint: Endpoint) -> Address:
        """Where the load goes, as found last.

        Raises:
            Unavailable: it was not found yet, and cannot be found now.
        """
        key = _identity(endpoint)
        if key not in self._addresses:
            try:
                await self._discover(endpoint)
            except TargetError as error:
                raise Unavailable(str(error)) from error
        return self._addresses[key]

    async def replicas(self, endpoint: Endpoint) -> Replicas:
        """Find the replicas now; none when the target is gone."""
        try:
            return await self._discover(endpoint)
        except TargetError:
            return Replicas()

    async def members(self, endpoint: Endpoint) -> frozenset[str]:
        """What makes two targets one: the Service, its pods, their origins, those of hooks."""
        replicas = await self.replicas(endpoint)
        engines = (*(replicas.reset or ()), *(replicas.profiler or ()))
        members = {f"origin:{replica.origin}" for replica in (*replicas.ready, *engines)}
        if endpoint.service is not None:
            namespace = _namespace(endpoint.service, self._owner)
            members.add(f"service:{namespace}/{endpoint.service.name}")
            members |= {f"pod:{uid}" for uid in replicas.uids}
        # A port of a pod makes it another server, but not another pod; a URL's identity is itself.
        members |= {f"pod:{e.uid.partition(':')[0]}" for e in engines if e.uid != e.origin}
        return frozenset(members)

    async def preflight(
        self,
        endpoint: Endpoint,
        dataset: Dataset,
        tell: Callable[[str], None],
        *,
        settle: bool = False,
    ) -> PreflightReport:
        """Wait until the target is ready and takes a request like the load's.

        What the load needs besides has to be there too, and with `settle` the replicas have to come
        to rest first. `tell` hears what is waited for.
        """
        patience = endpoint.ready_timeout_seconds / 2
        settling = Settling(self._context.clock, patience if settle else 0)

        async def find() -> preflights.Target:
            self._prompts.pop(dataset.system_prompt_source, None)
            await self.system_prompt(dataset)
            settling.check(await self._discover(endpoint))
            given = headers_of(_document(endpoint))
            order = build_target(endpoint, await self.address(endpoint), given)
            headers, http = await stack.enter_async_context(self._access(endpoint))
            return preflights.Target(order=order, headers=headers, http=http)

        async with AsyncExitStack() as stack:
            return await preflights.preflight(
                find,
                ready_timeout=endpoint.ready_timeout_seconds,
                http=self._context.control,
                clock=self._context.clock,
                tell=tell,
            )

    async def system_prompt(self, dataset: Dataset) -> str | None:
        """The system prompt from a ConfigMap, as found last; None when there is no such source.

        Raises:
            TargetError: it was not found yet, and cannot be found now.
        """
        source = dataset.system_prompt_source
        if source is None:
            return None
        if source not in self._prompts:
            self._prompts[source] = await read_prompt(
                self._context.cluster, self._owner.namespace, source
            )
        return self._prompts[source]

    async def reset(self, endpoint: Endpoint, *, send: bool, mark: str) -> ResetResult:
        """Find the replicas and, when the run asks for it now (`send`), empty the cache of each.

        `mark` tells this reset from all others: its canary is a prompt that was never sent before.
        """
        replicas = self._just_found(endpoint) or await self.replicas(endpoint)
        settings = endpoint.reset
        if settings is None or not send or not replicas.ready:
            return ResetResult(replicas=replicas, report=None)
        emptied = replicas if replicas.reset is None else Replicas(ready=replicas.reset)
        try:
            async with self._access(endpoint) as (headers, http):
                report = await proven_reset(
                    emptied,
                    endpoint,
                    settings,
                    mark=mark,
                    headers=headers,
                    host=self._host(endpoint, settings.target),
                    http=http,
                    clock=self._context.clock,
                )
        except TargetError as error:
            report = _unsaid(HookKind.RESET, error, emptied.ready)
        report = await self._blame(endpoint, settings.target, emptied.ready, report)
        return ResetResult(replicas=replicas, report=report)

    async def counts(
        self, endpoint: Endpoint, replicas: tuple[Replica, ...]
    ) -> dict[str, dict[str, float]]:
        """Read the servers' own counters; nothing is in flight when this is asked."""
        try:
            async with self._access(endpoint) as (headers, http):
                return await scrape(
                    replicas,
                    headers=headers,
                    host=self._host(endpoint),
                    server=endpoint.server,
                    http=http,
                    path=endpoint.metrics_path,
                    told=self._no_metrics,
                )
        except TargetError:
            return {}

    async def start_profiler(
        self, endpoint: Endpoint, replicas: tuple[Replica, ...], *, name: str
    ) -> HookReport:
        """Start the profiler of each server; `name` is that of their traces, where they take it."""
        settings = endpoint.profiler
        assert settings is not None
        # https://github.com/vllm-project/vllm: other servers name the field otherwise or not at all
        prefix = {"profile_prefix": name} if endpoint.server == "vllm" else {}
        try:
            async with self._access(endpoint) as (headers, http):
                report = await start_profiler(
                    Replicas(ready=replicas),
                    path=settings.start_path,
                    timeout=settings.timeout_seconds,
                    headers=headers,
                    host=self._host(endpoint, settings.target),
                    server=endpoint.server,
                    http=http,
                    clock=self._context.clock,
                    body={**prefix, **settings.start_body},
                )
        except TargetError as error:
            return _unsaid(HookKind.PROFILER_START, error, replicas)
        return await self._blame(endpoint, settings.target, replicas, report)

    async def stop_profiler(self, endpoint: Endpoint, replicas: tuple[Replica, ...]) -> HookReport:
        """Stop the profiler on the replicas on which a start was tried."""
        settings = endpoint.profiler
        assert settings is not None
        try:
            async with self._access(endpoint) as (headers, http):
                report = await stop_profiler(
                    Replicas(ready=replicas),
                    path=settings.stop_path,
                    timeout=settings.stop_timeout_seconds,
                    headers=headers,
                    host=self._host(endpoint, settings.target),
                    server=endpoint.server,
                    http=http,
                    clock=self._context.clock,
                )
        except TargetError as error:
            return _unsaid(HookKind.PROFILER_STOP, error, replicas)
        return await self._blame(endpoint, settings.target, replicas, report)

    async def _blame(
        self,
        endpoint: Endpoint,
        target: HookTarget | None,
        replicas: tuple[Replica, ...],
        report: HookReport,
    ) -> HookReport:
        """Look, after a failure, whether it is the pods that are gone."""
        if report.ok:
            return report
        namespace = self._owner.namespace
        if target is None and endpoint.service is not None:
            namespace = _namespace(endpoint.service, self._owner)
        try:
            missing = await discovery.gone(self._context.cluster, namespace, replicas)
        except KubeError:
            return report
        return blame(report, missing)

    def _just_found(self, endpoint: Endpoint) -> Replicas | None:
        """Replicas that the preflight has found a moment ago; None when it is longer ago.

        Looking again costs up to 0.1 s, in which the API server makes sure that nothing is newer.
        What changes meanwhile is not lost: the set is compared with that after the trial.
        """
        at, found = self._found.get(_identity(endpoint), (-_FRESH, Replicas()))
        return found if self._context.clock.now() - at < _FRESH and found.ready else None

    async def _discover(self, endpoint: Endpoint) -> Replicas:
        found = await self._find(endpoint)
        self._found[_identity(endpoint)] = self._context.clock.now(), found
        return found

    async def _find(self, endpoint: Endpoint) -> Replicas:
        urls = endpoint.given_urls
        if endpoint.service is None:
            self._addresses[_identity(endpoint)] = Address(urls=urls)
            return await self._with_engines(endpoint, discovery.from_urls(urls))
        found = await discovery.discover(
            self._context.cluster,
            _namespace(endpoint.service, self._owner),
            endpoint.service.name,
            endpoint.service.port,
            scheme="http" if endpoint.tls is None else "https",
        )
        assert found.service_url is not None
        direct = endpoint.via == "Endpoints"
        urls = tuple(r.origin for r in found.ready) if direct else (found.service_url,)
        self._addresses[_identity(endpoint)] = Address(urls=urls, host=found.service_host)
        return await self._with_engines(endpoint, found)

    async def _with_engines(self, endpoint: Endpoint, found: Replicas) -> Replicas:
        """Find the servers of hooks that have a target of their own as well."""
        engines: list[tuple[Replica, ...] | None] = []
        for hook in (endpoint.reset, endpoint.profiler):
            if hook is None or hook.target is None:
                engines.append(None)
                continue
            servers = await find_engines(
                self._context.cluster,
                self._owner.namespace,
                hook.target,
                load=found.ready,
                scheme="http" if endpoint.tls is None else "https",
            )
            engines.append(servers)
        return replace(found, reset=engines[0], profiler=engines[1])

    def _host(self, endpoint: Endpoint, target: HookTarget | None = None) -> str | None:
        """Host header of calls to a pod's address: its Service's name, as clients send it."""
        if target is not None and (target.selector or target.urls):
            return None
        if target is not None and target.service is not None:
            return f"{target.service.name}.{self._owner.namespace}.svc"
        if endpoint.service is None:
            return None
        return f"{endpoint.service.name}.{_namespace(endpoint.service, self._owner)}.svc"

    @asynccontextmanager
    async def _access(self, endpoint: Endpoint) -> AsyncIterator[tuple[dict[str, str], Control]]:
        """Headers and client for calls to the target, with its own TLS settings if it has any.

        Raises:
            TargetError: a Secret cannot be read, or does not hold what it should.
        """
        headers = await self._resolved(endpoint)
        if endpoint.tls is None:
            yield headers, self._context.control
            return
        tls = await self._tls(endpoint.tls, authority_of(_document(endpoint)))
        async with ControlClient(tls=tls) as http:
            yield headers, http

    async def _tls(self, tls: Tls, secret: SecretKey | None) -> ssl.SSLContext:
        verify = not tls.insecure_skip_verify
        if secret is None:
            return client_context(verify=verify)
        if secret not in self._authorities:
            cluster, namespace = self._context.cluster, self._owner.namespace
            self._authorities[secret] = await read_text(cluster, namespace, secret)
        try:
            return client_context(authority=self._authorities[secret], verify=verify)
        except BadAuthorityError as error:
            del self._authorities[secret]
            message = f"Secret {self._owner.namespace}/{secret.name}: key {secret.key!r}: {error}"
            raise TargetError(Reason.SECRET_MISSING, message, final=False) from error

    async def _resolved(self, endpoint: Endpoint) -> dict[str, str]:
        headers = headers_of(_document(endpoint))
        if headers not in self._headers:
            self._headers[headers] = await read_headers(
                self._context.cluster, self._owner.namespace, headers
            )
        return self._headers[headers]


def _document(endpoint: Endpoint) -> dict[str, object]:
    return endpoint.model_dump(by_alias=True, exclude_none=True)


def _identity(endpoint: Endpoint) -> tuple[str, ...]:
    if endpoint.service is None:
        return endpoint.given_urls
    service = endpoint.service
    return (service.namespace or "", service.name, str(service.port), endpoint.via)


def _namespace(service: ServiceTarget, owner: Owner) -> str:
    """Namespace of the target; another one than the run's was allowed before the start."""
    return service.namespace or owner.namespace


def _unsaid(hook: HookKind, error: TargetError, replicas: tuple[Replica, ...]) -> HookReport:
    """Report of a hook that could not even be sent: its headers' Secret cannot be read any more."""
    return HookReport(
        hook=hook,
        ok=False,
        verified=False,
        reason=error.reason,
        message=str(error),
        replicas=tuple(replica.uid for replica in replicas),
        calls=(),
    )
