"""The embedded cluster: API server, controllers and node in one thread with a loop of its own.

`with DevCluster(...) as cluster:` starts it in a fraction of a second, without root or Docker, and
leaves no process behind. It listens on loopback, without TLS and without authentication, and keeps
everything in memory. What it does like a real cluster is listed in `tests/conformance/README.md`;
two things are different on purpose: pods are local processes with addresses in 127.0.0.0/8, and a
Service is a TCP proxy, with no name in any DNS.
"""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import AsyncExitStack
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, TypeVar

import yaml

from tare.devcluster.apiserver.builtin import builtin_resources
from tare.devcluster.apiserver.crds import CRD_KEY, Definer, crd_resource
from tare.devcluster.apiserver.documents import Document, utc_now
from tare.devcluster.apiserver.handlers import Handlers
from tare.devcluster.apiserver.registry import Registry
from tare.devcluster.apiserver.server import ApiServer, AuditEntry
from tare.devcluster.apiserver.store import Store
from tare.devcluster.controllers.endpointslices import EndpointSliceController
from tare.devcluster.controllers.events import EventRecorder
from tare.devcluster.controllers.garbage import GarbageCollector
from tare.devcluster.controllers.jobs import JobController
from tare.devcluster.controllers.namespaces import NamespaceController
from tare.devcluster.faults import Faults
from tare.devcluster.node.addresses import Network
from tare.devcluster.node.kubelet import Kubelet
from tare.devcluster.node.logs import PodLogs
from tare.devcluster.node.pods import NodeServices
from tare.devcluster.node.processes import Guardian
from tare.devcluster.node.proxy import ServiceProxy
from tare.devcluster.node.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from tare.devcluster.node.containers import Runner

__all__ = ["DevCluster"]

_CPUS = 64
_START_SECONDS = 30.0

_Result = TypeVar("_Result")


class DevCluster:
    """A Kubernetes cluster of one node, for tests and for `tare demo`.

    Args:
        crds: Definitions to serve from the start, as documents or as paths of YAML files.
        images: Image -> entrypoint; a pod of another image stays in ErrImagePull.
        runners: Image -> coroutine that plays the pod inside the cluster's loop.
        port: Port of the API server; 0 takes a free one.
        cpus: CPUs of the node; requests beyond them leave a pod Unschedulable.
    """

    def __init__(
        self,
        *,
        crds: Sequence[Document | Path] = (),
        images: Mapping[str, Sequence[str]] | None = None,
        runners: Mapping[str, Runner] | None = None,
        port: int = 0,
        cpus: int = _CPUS,
    ) -> None:
        self._crds = crds
        self._images = images or {}
        self._runners = runners or {}
        self._cpus = cpus
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="devcluster", daemon=True)
        self._started = threading.Event()
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        store = Store()
        self._registry = Registry(store, utc_now)
        self._logs = PodLogs(utc_now)
        self.faults = Faults(store, self._call)
        handlers = Handlers(self._registry, self.faults, self._logs)
        self._server = ApiServer(self._registry, self.faults, handlers, port)
        self._kubelet: Kubelet | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise TimeoutError(f"the devcluster did not start in {_START_SECONDS:.0f} s")
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    @property
    def url(self) -> str:
        """Return the address of the API server."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def requests(self) -> list[AuditEntry]:
        """Return the requests that arrived so far, oldest first; the last 100,000 are kept."""
        return list(self._server.requests)

    def write_kubeconfig(self, path: Path, *, namespace: str = "default") -> Path:
        """Write a kubeconfig that points at this cluster; return its path."""
        name = "devcluster"
        config: Document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {"token": name}}],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
            ],
            "current-context": name,
        }
        path.write_text(json.dumps(config, indent=2) + "\n")
        return path

    def stop_listening(self) -> None:
        """Take the API server away: connections break, new ones are refused, state stays."""
        self._await(self._server.stop())

    def start_listening(self) -> None:
        """Bring the API server back on the same port."""
        self._await(self._server.start())

    def kill_out_of_memory(self, namespace: str, name: str) -> None:
        """Kill a pod's process as the kernel does; its container ends with OOMKilled, 137."""
        kubelet = self._kubelet
        assert kubelet is not None
        self._call(lambda: kubelet.kill_out_of_memory(namespace, name))

    def _call(self, action: Callable[[], _Result]) -> _Result:
        """Run something in the cluster's thread and wait for it."""
        if threading.current_thread() is self._thread:
            return action()

        async def run() -> _Result:
            return action()

        return self._await(run())

    def _await(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self._failure = error
        finally:
            self._started.set()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _main(self) -> None:
        async with AsyncExitStack() as stack:
            network = Network.claim()
            stack.callback(network.release)
            self._define(network)
            self._start_node(stack, network)
            self._start_controllers(stack)
            await self._server.start()
            stack.push_async_callback(self._server.stop)
            self._started.set()
            await self._stopping.wait()

    def _define(self, network: Network) -> None:
        """Register the resource types and apply the definitions."""
        registry = self._registry
        for resource in builtin_resources(registry.clock, network.next_service):
            registry.resources[resource.key] = resource
        registry.resources[CRD_KEY] = crd_resource(registry)
        registry.admission.append(self.faults.admit)
        Definer(registry)
        for crd in self._crds:
            document = crd if isinstance(crd, dict) else yaml.safe_load(crd.read_text())
            registry.create(registry.resources[CRD_KEY], "", document)

    def _start_node(self, stack: AsyncExitStack, network: Network) -> None:
        directory = stack.enter_context(TemporaryDirectory(prefix="devcluster-"))
        guardian = Guardian()
        stack.callback(guardian.close)
        services = NodeServices(
            registry=self._registry,
            recorder=EventRecorder(self._registry, "kubelet"),
            logs=self._logs,
            guardian=guardian,
            images=self._images,
            runners=self._runners,
            directory=directory,
        )
        self._kubelet = Kubelet(services, network.next_pod)
        stack.push_async_callback(self._kubelet.close)
        stack.callback(Scheduler(self._registry, self._cpus).close)
        proxy = asyncio.ensure_future(ServiceProxy(self._registry).run())
        stack.callback(proxy.cancel)

    def _start_controllers(self, stack: AsyncExitStack) -> None:
        namespaces = NamespaceController(self._registry)
        for controller in (
            namespaces,
            GarbageCollector(self._registry),
            JobController(self._registry),
            EndpointSliceController(self._registry),
        ):
            stack.callback(controller.close)
        namespaces.create_initial()
