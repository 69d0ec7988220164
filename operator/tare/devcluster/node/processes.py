"""Containers as local processes: own process group, captured output, no survivor.

A container's process sees a small environment of its own and not the one of the cluster, so that
a KUBECONFIG or a token of the developer never leaks into a pod.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tare.devcluster.node import guardian
from tare.devcluster.node.containers import Container, Exit, ExitReason
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.devcluster.node.logs import LogBuffer

__all__ = ["Guardian", "ProcessContainer"]

_CHUNK: Final = 65536
_SIGNAL_BASE: Final = 128
_CANNOT_RUN: Final = 127
_INHERITED: Final = ("HOME", "LANG", "PATH", "PYTHONPATH", "TMPDIR", "TZ", "VIRTUAL_ENV")
_PYTHON_NAMES: Final = frozenset({"python", "python3"})


class Guardian:
    """Starts the guardian with the first process and tells it about each group."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def watch(self, group: int) -> None:
        """Have a process group killed if the cluster dies."""
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, "-I", "-S", str(Path(guardian.__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        self._tell(f"+{group}")

    def forget(self, group: int) -> None:
        """A group has ended."""
        self._tell(f"-{group}")

    def close(self) -> None:
        """End the guardian; it kills whatever it was not told to forget."""
        if self._process is not None:
            self._stdin.close()
            self._process.wait()

    @property
    def _stdin(self) -> IO[str]:
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    def _tell(self, order: str) -> None:
        print(order, file=self._stdin, flush=True)


class ProcessContainer(Container):
    """One run of a container's process."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: LogBuffer,
        watcher: Guardian,
        directory: str,
    ) -> None:
        self._log = log
        self._guardian = watcher
        self._reason: ExitReason | None = None
        self._ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - running the pod's command is the job
                [sys.executable if command[0] in _PYTHON_NAMES else command[0], *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_base_environment() | dict(environment),
                cwd=directory,
                process_group=0,
            )
        except OSError as error:
            log.append(f"exec {command[0]}: {error.strerror}\n".encode())
            log.close()
            self._ended.set_result(Exit.of(_CANNOT_RUN))
            return
        self._guardian.watch(self._process.pid)
        self._follow()

    def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        os.set_blocking(self._output, False)
        loop.add_reader(self._output, self._read)
        self._pidfd = os.pidfd_open(self._process.pid)
        loop.add_reader(self._pidfd, self._on_exit)

    @property
    def _output(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _read(self) -> bool:
        """Take what was printed; False when nothing is left."""
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(self._output)
            return False
        self._log.append(data)
        return True

    def _on_exit(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        # What it started ends with it, as in a container. Its own id is reserved until the wait.
        self._signal(signal.SIGKILL)
        code = self._process.wait()
        self._guardian.forget(self._process.pid)
        while self._read():
            pass
        loop.remove_reader(self._output)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()
        exit_code = code if code >= 0 else _SIGNAL_BASE - code
        ended = Exit(exit_code, self._reason) if self._reason else Exit.of(exit_code)
        if not self._ended.done():
            self._ended.set_result(ended)

    @override
    async def wait(self) -> Exit:
        """Wait for its end."""
        return await asyncio.shield(self._ended)

    @override
    def stop(self) -> None:
        """Ask it to end."""
        if not self._ended.done():
            self._process.send_signal(signal.SIGTERM)

    @override
    def kill(self) -> None:
        """End it at once."""
        if not self._ended.done():
            self._signal(signal.SIGKILL)

    def kill_out_of_memory(self) -> None:
        """Kill it and say that the memory was short (fault injection)."""
        self._reason = ExitReason.OOM_KILLED
        self.kill()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return


def _base_environment() -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**inherited, "PYTHONUNBUFFERED": "1"}
