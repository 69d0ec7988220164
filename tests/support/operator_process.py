"""The operator as a process of its own, as in a Deployment, so that tests can kill it."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import aiohttp

from support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["WORKER_IMAGE", "OperatorProcess"]

WORKER_IMAGE = "localhost/tare-worker:dev"


class OperatorProcess:
    """`tare operator`, which tests may kill and start again on the same port."""

    def __init__(
        self,
        kubeconfig: Path,
        directory: Path,
        *,
        address: str = "127.0.0.1",
        allowed_targets: Sequence[str] = (),
        worker_image: str = WORKER_IMAGE,
        environment: Mapping[str, str] | None = None,
        python: Sequence[str] = (),
    ) -> None:
        self.log = directory / "operator.log"
        self._command = [sys.executable, *python, "-m", "tare", "operator"]
        key = directory / "operator.key"
        key.write_bytes(secrets.token_bytes(32))
        listen = f"{address}:{_free_port(address)}"
        self.url = f"http://{listen}"
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "TARE_OPERATOR_LISTEN": listen,
            "TARE_INBOX_URL": self.url,
            "TARE_OPERATOR_KEY_FILE": str(key),
            "TARE_WORKER_IMAGE": worker_image,
            "TARE_ALLOWED_TARGETS": ",".join(allowed_targets),
            **(environment or {}),
        }

    def start(self) -> None:
        """Start the process; `ready` says when it watches."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    async def ready(self) -> None:
        """Wait until the process answers `/readyz`."""

        async def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()[-2000:]
            async with aiohttp.ClientSession() as session:
                try:
                    async with session.get(f"{self.url}/readyz") as response:
                        return response.status == 200
                except aiohttp.ClientError:
                    return False

        await eventually(answers, 30, lambda: self.log.read_text()[-2000:])

    def kill(self) -> None:
        """SIGKILL, as a node failure would."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(15)

    @property
    def pid(self) -> int:
        """Process id; only of one that was started."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None


def _free_port(address: str) -> int:
    with socket.socket() as listener:
        listener.bind((address, 0))
        return int(listener.getsockname()[1])
