"""An operator's metrics endpoint that replays a recorded run: one recorded state for each scrape.

The states are documents of a run on a real cluster; they go through the code that publishes them in
the operator. What only the operator's process knew (messages, calls, its own times) is made up.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tare.manifests.metadata import Owner
from tare.measure.histogram import Histogram
from tare.measure.hooks import CallOutcome, HookKind
from tare.measure.messages import Identity, Progress
from tare.runtime.publish import publish, show_live
from tare.telemetry.metrics import CONTENT_TYPE, Metrics
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Replay", "serve"]

_PHASES = ("warmup", "profiling")


class Replay:
    """Goes on by one state whenever it is asked; stays at the last one."""

    def __init__(self, recording: Path) -> None:
        self.metrics = Metrics()
        self.ended = threading.Event()
        self._states = [json.loads(line) for line in recording.read_text().splitlines()]

    def scrape(self) -> bytes:
        """Show the next state."""
        if self._states:
            self._show(self._states.pop(0))
        else:
            self.ended.set()
        return self.metrics.render()

    def _show(self, document: dict[str, Any]) -> None:
        metadata, progress = document["metadata"], document["status"].get("progress", {})
        owner = Owner(**metadata)
        publish(self.metrics, owner, document)
        if progress.get("phase") in _PHASES:
            show_live(
                self.metrics,
                owner,
                cell=progress["cell"],
                phase=progress["phase"],
                reports=[_report(owner, index) for index in range(2)],
            )
        for hook in HookKind:
            self.metrics.hook_calls.labels(hook, CallOutcome.CONFIRMED).inc(3)
        for message in ("register", "wait", "progress", "result"):
            self.metrics.inbox_requests.labels(message, "200").inc(2)
        self.metrics.requests.labels("ok").inc(24)
        self.metrics.workers_connected.set(2)
        self.metrics.decision_seconds.observe(0.0002)
        self.metrics.reaction_seconds.observe(0.012)
        self.metrics.status_patch_seconds.observe(0.01)
        self.metrics.event_loop_lag_seconds.observe(0.0004)


def _report(owner: Owner, index: int) -> Progress:
    first_tokens = Histogram()
    for milliseconds in (28, 30, 38):
        first_tokens.record(milliseconds * 1_000_000)
    worker = Identity(
        run_uid=owner.uid,
        cell=0,
        trial=0,
        attempt=0,
        index=index,
        pod_uid=f"pod-{index}",
        pod_name=f"quickstart-{index}",
    )
    return Progress(
        worker=worker,
        phase=1,
        elapsed=1.0,
        issued=4,
        ok=3,
        failed=0,
        in_flight=1,
        output_tokens=96,
        time_to_first_token=first_tokens.to_json(),
    )


@contextmanager
def serve(replay: Replay) -> Iterator[int]:
    """Serve `/metrics` on the port that is yielded."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = replay.scrape()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
