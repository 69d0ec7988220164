"""Routes that control the server or tell about it: cache, profiler, health, metrics, admin.

Answers are those of vLLM, or of SGLang where `--server-style sglang` says so. None of them is
guarded by the API key, as on both.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson

from tare.sim.serve.faults import DENIED, EMPTY, LOST, SILENT, FaultError
from tare.sim.serve.metrics import CONTENT_TYPE
from tare.sim.serve.openai import ApiError, read_object
from tare.sim.serve.options import ServerStyle

if TYPE_CHECKING:
    from tare.sim.serve.http import Connection, Request
    from tare.sim.serve.state import State

__all__ = ["VERSION", "ControlRoutes"]

VERSION = "0.32.0+tare.sim"
"""The vLLM whose answers are imitated; the local part says that this is none."""

_TEXT = b"text/plain; charset=utf-8"
_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n"})


class ControlRoutes:
    """Everything beside the generation of text."""

    def __init__(self, state: State) -> None:
        self._state = state

    def health(self, request: Request, connection: Connection) -> None:  # noqa: ARG002 - a route
        """GET /health: 200 without a body once the server serves, 503 while it ends."""
        if self._state.misbehave("health", connection) is None:
            connection.respond(503 if self._state.draining else 200, b"")

    def version(self, request: Request, connection: Connection) -> None:  # noqa: ARG002 - a route
        """GET /version."""
        connection.respond_json(200, {"version": VERSION})

    def metrics(self, request: Request, connection: Connection) -> None:  # noqa: ARG002 - a route
        """GET /metrics."""
        connection.respond(200, self._state.metrics.render(), CONTENT_TYPE)

    def reset_prefix_cache(self, request: Request, connection: Connection) -> None:
        """POST /reset_prefix_cache: 200 with `success` true or false.

        There is no external cache, so `reset_external` changes nothing. With
        `reset_running_requests` it succeeds while requests run, and they fill the cache again.
        """
        preempt = _query_flag(request, "reset_running_requests")
        _query_flag(request, "reset_external")
        match self._state.misbehave("reset", connection):
            case None:
                connection.respond_json(200, {"success": self._reset(preempt=preempt)})
            case str(word) if word == DENIED:
                connection.respond_json(200, {"success": False})
            case str(word) if word == SILENT:
                connection.respond_json(200, {"success": True})
            case str(word) if word == EMPTY:
                self._reset(preempt=preempt)
                connection.respond(200, b"")
            case str(word) if word == LOST:
                self._reset(preempt=preempt)

    def flush_cache(self, request: Request, connection: Connection) -> None:  # noqa: ARG002 - a route
        """GET or POST /flush_cache, SGLang's reset: 200 with a text, 400 while requests run."""
        match self._state.misbehave("reset", connection):
            case None:
                done = self._reset(preempt=False)
                connection.respond(200 if done else 400, _FLUSHED if done else _BUSY, _TEXT)
            case str(word) if word == DENIED:
                connection.respond(400, _BUSY, _TEXT)
            case str(word) if word == SILENT:
                connection.respond(200, _FLUSHED, _TEXT)
            case str(word) if word == EMPTY:
                self._reset(preempt=False)
                connection.respond(200, b"")
            case str(word) if word == LOST:
                self._reset(preempt=False)

    def start_profile(self, request: Request, connection: Connection) -> None:
        """POST /start_profile: 200, or an error while a profile is taken."""
        body = _profile_body(request)
        fault = self._state.misbehave("start_profile", connection)
        if fault not in (None, LOST):
            return
        started = self._state.truth.start_profiler(time.monotonic_ns(), body)
        if fault == LOST:
            return
        if self._state.options.server_style is ServerStyle.SGLANG:
            text = b"Start profiling.\n" if started else b"Profiling is already in progress.\n"
            connection.respond(200 if started else 400, text, _TEXT)
            return
        if not started:
            message = (
                "A profiling session is already active. "
                "Call /stop_profile before starting another session."
            )
            raise ApiError(409, message, "Conflict")
        connection.respond(200, b"")

    def stop_profile(self, request: Request, connection: Connection) -> None:  # noqa: ARG002 - a route
        """POST /stop_profile: 200, also when no profile is taken."""
        fault = self._state.misbehave("stop_profile", connection)
        if fault not in (None, LOST):
            return
        self._state.truth.stop_profiler(time.monotonic_ns())
        if fault == LOST:
            return
        sglang = self._state.options.server_style is ServerStyle.SGLANG
        connection.respond(200, b"Stop profiling.\n" if sglang else b"", _TEXT)

    def counters(self, request: Request, connection: Connection) -> None:  # noqa: ARG002 - a route
        """GET /admin/counters."""
        state = self._state
        document = {
            **state.truth.counters(),
            "faults_served": dict(state.faults.served),
            "max_late_ns": max(
                realtime.engine.totals.max_late_ns for realtime in state.distinct_engines
            ),
        }
        connection.respond_json(200, document)

    def reset_counters(self, request: Request, connection: Connection) -> None:
        """POST /admin/reset_counters: zero all counts, then answer as /admin/counters."""
        self._state.truth.forget()
        self._state.faults.served.clear()
        for realtime in self._state.distinct_engines:
            realtime.engine.totals.max_late_ns = 0
        self.counters(request, connection)

    def requests(self, request: Request, connection: Connection) -> None:
        """GET /admin/requests?last=N."""
        last = request.parameter("last")
        if last is not None and not last.isdecimal():
            raise ApiError(400, f"last={last} is no whole number from 0", "Bad Request", "last")
        requests = self._state.truth.requests(None if last is None else int(last))
        connection.respond_json(200, {"requests": requests})

    def faults(self, request: Request, connection: Connection) -> None:
        """GET or POST /admin/faults: tell or change the misbehaviour; see `faults`."""
        if request.method == "POST":
            body = read_object(request.headers.get("content-type", ""), request.body)
            try:
                self._state.faults.update(body, time.monotonic_ns())
            except FaultError as error:
                raise ApiError(400, str(error), "Bad Request") from None
        connection.respond_json(200, self._state.faults.document())

    def _reset(self, *, preempt: bool) -> bool:
        engines = [realtime.engine for realtime in self._state.distinct_engines]
        # All or none: what one server confirms holds for whatever it serves.
        done = preempt or not any(engine.running for engine in engines)
        if done:
            for engine in engines:
                engine.reset(preempt=preempt)
        counts = self._state.truth.counts
        counts.resets += done
        counts.resets_refused += not done
        return done


_FLUSHED = b"Cache flushed.\nPlease check backend logs for more details.\n"
_BUSY = b"Flush cache failed: requests are running or waiting.\n"


def _query_flag(request: Request, name: str) -> bool:
    value = request.parameter(name)
    if value is None or value.lower() in _FALSE:
        return False
    if value.lower() in _TRUE:
        return True
    message = (
        f"1 validation error:\n  {{'type': 'bool_parsing', 'loc': 'query.{name}', "
        f"'msg': 'Input should be a valid boolean', 'input': '{value}'}}"
    )
    raise ApiError(400, message, "Bad Request", f"query.{name}")


def _profile_body(request: Request) -> Any:
    """Read the optional body of a start; vLLM refuses wrong types in it."""
    if not request.body:
        return None
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"1 validation error:\n  {error}", "Bad Request", "body") from None
    if not isinstance(body, dict):
        raise ApiError(400, "1 validation error:\n  no dictionary", "Bad Request", "body")
    for name, kind in (("profile_prefix", str), ("max_iterations", int), ("delay_iterations", int)):
        value = body.get(name)
        if value is not None and type(value) is not kind:
            message = f"1 validation error:\n  {name} should be a valid {kind.__name__}"
            raise ApiError(400, message, "Bad Request", f"body.{name}")
    return body
