"""One pod on the node: from the first status to the last, as one coroutine.

Only the first container runs, without volumes, limits or a network of its own: the process sees
the machine. `emptyDir` mounts are ignored, since the machine's file system can be written; any
other volume keeps the pod in ContainerCreating with a FailedMount event, as a missing one would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tare.devcluster.apiserver.documents import Document, format_time
from tare.devcluster.apiserver.registry import PODS, Registry
from tare.devcluster.controllers.events import EventRecorder
from tare.devcluster.node.containers import Container, Exit, PodContext, Runner
from tare.devcluster.node.environment import ConfigError, container_environment, expand
from tare.devcluster.node.logs import LogBuffer, PodLogs
from tare.devcluster.node.pod_status import PodState, write_status
from tare.devcluster.node.probes import probe_forever
from tare.devcluster.node.processes import Guardian, ProcessContainer
from tare.devcluster.node.runners import RunnerContainer

__all__ = ["NodePod", "NodeServices"]

_PULL_SECONDS: Final = 0.3
_PULL_BACKOFF_SECONDS: Final = 2.0
_CONFIG_RETRY_SECONDS: Final = 1.0
_RESTART_SECONDS: Final = (0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
_RESTART_WHEN: Final[Mapping[str, Callable[[int], bool]]] = {
    "Always": lambda _code: True,
    "OnFailure": lambda code: code != 0,
    "Never": lambda _code: False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """What every pod of the node shares."""

    registry: Registry
    recorder: EventRecorder
    logs: PodLogs
    guardian: Guardian
    images: Mapping[str, Sequence[str]]
    """Image -> entrypoint of the local process."""
    runners: Mapping[str, Runner]
    """Image -> coroutine that plays the pod."""
    directory: str
    """Where processes are started: empty, and gone with the cluster."""


class NodePod:
    """Runs a pod until it has ended or was deleted."""

    def __init__(self, services: NodeServices, pod: Document, address: str) -> None:
        self._services = services
        self._pod = pod
        self._spec = pod["spec"]["containers"][0]
        self._container: Container | None = None
        self._terminating = asyncio.Event()
        self._grace = 0.0
        self._state = PodState(
            address=address, started_at=self._now(), state={}, last_state={}
        ).waiting("ContainerCreating")

    @property
    def container(self) -> Container | None:
        """Return what runs at the moment."""
        return self._container

    def terminate(self, grace: float) -> None:
        """End the pod: SIGTERM now, SIGKILL when the grace period is over."""
        self._grace = grace
        self._terminating.set()

    def kill(self) -> None:
        """End the pod at once: its object is gone."""
        if self._container is not None:
            self._container.kill()

    async def run(self) -> None:
        """Live the pod's life."""
        try:
            self._write(self._state)
            ready = await self._until_terminating(self._prepare())
            if ready:
                await self._run_container()
        finally:
            self.kill()

    async def _prepare(self) -> None:
        """Wait until the container could be started; maybe for ever."""
        if volume := _unsupported_volume(self._pod):
            self._services.recorder.warning(self._pod, "FailedMount", volume)
            await asyncio.Event().wait()
        image = self._spec["image"]
        if image not in self._services.images and image not in self._services.runners:
            await self._fail_to_pull(image)

    async def _until_terminating(self, step: Awaitable[None]) -> bool:
        """Carry out a step; False when the pod was deleted meanwhile."""
        working = asyncio.ensure_future(step)
        stopping = asyncio.ensure_future(self._terminating.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            return not self._terminating.is_set()
        finally:
            working.cancel()
            stopping.cancel()

    async def _fail_to_pull(self, image: str) -> None:
        """Alternate between the two reasons, as a real kubelet does."""
        cause = (
            f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": '
            f"the devcluster knows {', '.join(sorted(self._known_images())) or 'no image'}"
        )
        while True:
            self._services.recorder.warning(
                self._pod, "Failed", f'Failed to pull image "{image}": {cause}'
            )
            self._write(self._state.waiting("ErrImagePull", cause))
            await asyncio.sleep(_PULL_SECONDS)
            message = f'Back-off pulling image "{image}": ErrImagePull: {cause}'
            self._write(self._state.waiting("ImagePullBackOff", message))
            await asyncio.sleep(_PULL_BACKOFF_SECONDS)

    def _known_images(self) -> set[str]:
        return {*self._services.images, *self._services.runners}

    async def _run_container(self) -> None:
        """Start the container, and start it again as its restart policy says."""
        policy = _RESTART_WHEN[self._pod["spec"]["restartPolicy"]]
        while True:
            ended = await self._run_once()
            if ended is None:
                return
            self._write(self._state.terminated(ended, self._now()))
            if self._terminating.is_set() or not policy(ended.code):
                self._write(self._state.finished())
                return
            if not await self._until_terminating(self._back_off()):
                return

    async def _back_off(self) -> None:
        restarts = self._state.restarts
        seconds = _RESTART_SECONDS[min(restarts, len(_RESTART_SECONDS) - 1)]
        name = self._spec["name"]
        message = f"back-off {seconds:.0f}s restarting failed container={name}"
        if seconds:
            self._services.recorder.warning(self._pod, "BackOff", message)
        self._write(self._state.restarting("CrashLoopBackOff", message))
        await asyncio.sleep(seconds)

    async def _run_once(self) -> Exit | None:
        """Run the container to its end; None when the pod was deleted before it started."""
        container = await self._start()
        if container is None:
            return None
        self._container = container
        probe = self._spec.get("readinessProbe")
        ready = replace(self._state.running(self._now()), ready=probe is None)
        self._write(ready)
        self._services.recorder.normal(
            self._pod, "Started", f"Started container {self._spec['name']}"
        )
        helpers = [asyncio.ensure_future(self._obey())]
        if probe is not None:
            address = self._state.address
            helpers.append(
                asyncio.ensure_future(probe_forever(probe, self._spec, address, self._on_probe))
            )
        try:
            return await container.wait()
        finally:
            for helper in helpers:
                helper.cancel()

    async def _start(self) -> Container | None:
        """Start it as soon as the sources of its variables are there."""
        while True:
            try:
                environment = self._environment()
            except ConfigError as error:
                self._write(self._state.waiting("CreateContainerConfigError", str(error)))
                if not await self._until_terminating(asyncio.sleep(_CONFIG_RETRY_SECONDS)):
                    return None
            else:
                log = self._services.logs.open(self._pod["metadata"]["uid"])
                return self._create(environment, log)

    def _environment(self) -> dict[str, str]:
        address = self._state.address
        pod = {**self._pod, "status": {**self._pod["status"], "podIP": address}}
        return container_environment(self._services.registry, pod, self._spec)

    def _create(self, environment: Mapping[str, str], log: LogBuffer) -> Container:
        image, spec, metadata = self._spec["image"], self._spec, self._pod["metadata"]
        arguments = [expand(text, environment) for text in spec.get("args") or ()]
        command = [expand(text, environment) for text in spec.get("command") or ()]
        runner = self._services.runners.get(image)
        if runner is not None:
            context = PodContext(
                name=metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
                labels=metadata.get("labels") or {},
                address=self._state.address,
                env=environment,
                args=[*command, *arguments],
                stopping=asyncio.Event(),
                log=lambda line: log.append(line.encode() + b"\n"),
            )
            return RunnerContainer(runner, context)
        argv = [*(command or self._services.images[image]), *arguments]
        hostname = {"HOSTNAME": self._pod["spec"].get("hostname", metadata["name"])}
        return ProcessContainer(
            argv,
            hostname | dict(environment),
            log,
            self._services.guardian,
            self._services.directory,
        )

    async def _obey(self) -> None:
        """Pass the order to end on to the container."""
        await self._terminating.wait()
        assert self._container is not None
        self._services.recorder.normal(
            self._pod, "Killing", f"Stopping container {self._spec['name']}"
        )
        self._container.stop()
        await asyncio.sleep(self._grace)
        self._container.kill()

    def _on_probe(self, ready: bool, failure: str) -> None:
        if failure:
            self._services.recorder.warning(
                self._pod, "Unhealthy", f"Readiness probe failed: {failure}"
            )
        self._write(replace(self._state, ready=ready))

    def _write(self, state: PodState) -> None:
        self._state = state
        registry = self._services.registry
        change = write_status(self._pod, state, self._now())
        registry.modify(registry.resources[PODS], self._pod, change, subresource="status")

    def _now(self) -> str:
        return format_time(self._services.registry.clock())


def _unsupported_volume(pod: Document) -> str:
    """Say which mounted volume cannot be there; empty when there is none."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
        volume = volumes.get(mount["name"], {})
        if "emptyDir" not in volume:
            kind = ", ".join(key for key in volume if key != "name") or "an unknown volume"
            return (
                f'MountVolume.SetUp failed for volume "{mount["name"]}": the devcluster mounts no '
                f"{kind}; pass the data in an environment variable"
            )
    return ""
