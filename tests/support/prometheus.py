"""A real Prometheus with a data folder and a port of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support.tools import find

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Prometheus", "prometheus"]

SCRAPES = 0.25
"""Seconds between two scrapes."""
_START_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Prometheus:
    """Its API."""

    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Series of an instant query now."""
        return self._series("query", {"query": expression})

    def query_range(self, expression: str, *, start: float, end: float) -> list[dict[str, Any]]:
        """Series of a range query, as a panel with lines asks it."""
        limits = {"start": str(start), "end": str(end), "step": str(SCRAPES)}
        return self._series("query_range", {"query": expression, **limits})

    def label_values(self, label: str, selector: str) -> list[str]:
        """Values of a label, as Grafana's `label_values` asks for them."""
        found: list[str] = self._get(f"label/{label}/values", {"match[]": selector})
        return found

    def _series(self, path: str, parameters: dict[str, str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(path, parameters)["result"]
        return found

    def _get(self, path: str, parameters: dict[str, str]) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - http
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error


@contextmanager
def prometheus(folder: Path, *, target: int) -> Iterator[Prometheus]:
    """Run Prometheus, scraping a port of this machine; stop it at the end."""
    program = find("prometheus")
    assert program
    (folder / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": f"{int(SCRAPES * 1000)}ms"},
                "scrape_configs": [
                    {
                        "job_name": "tare",
                        "honor_labels": True,
                        "scrape_timeout": f"{int(SCRAPES * 1000)}ms",
                        "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
                    }
                ],
            }
        )
    )
    address = f"127.0.0.1:{_free_port()}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        _until_ready(f"http://{address}", process, folder / "log")
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        process.wait(10)


def _until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1):  # noqa: S310 - http
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"Prometheus is not ready: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
