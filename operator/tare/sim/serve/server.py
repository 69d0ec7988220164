"""One simulated server: its parts put together, its routes, its start and its end."""

from __future__ import annotations

import asyncio
import hmac
import socket
import time
from collections.abc import Mapping

from tare.sim.core.schedulers import new_engine
from tare.sim.serve.control_routes import ControlRoutes
from tare.sim.serve.faults import Faults
from tare.sim.serve.http import Connection, Handler, Request
from tare.sim.serve.metrics import Metrics
from tare.sim.serve.openai import ApiError, Limits
from tare.sim.serve.options import Options, ServerStyle
from tare.sim.serve.realtime import RealTime
from tare.sim.serve.state import State
from tare.sim.serve.text_routes import TextRoutes
from tare.sim.serve.tokenizer import MadeUpTokenizer, Tokenizer
from tare.sim.serve.truth import Truth

__all__ = ["Server"]

GRACE_SECONDS = 3.0
"""How long answers may go on after the order to end."""
_BACKLOG = 2048
_DRAIN_POLL_SECONDS = 0.02

_Routes = Mapping[str, Mapping[str, Handler]]


class Server:
    """A server that is bound; connections are refused until `start`, as by one that loads."""

    def __init__(
        self, options: Options, replica: int = 0, tokenizer: Tokenizer | None = None
    ) -> None:
        """Bind the address, so that one in use shows before any start-up delay.

        Raises:
            OSError: the address cannot be used; `filename` is what it is.
        """
        self._options = options
        self._replica = replica
        self._tokenizer = tokenizer or MadeUpTokenizer()
        port = options.port and options.port + replica
        try:
            self._socket = _bound(options.host, port)
        except OSError as error:
            error.filename = f"{options.host}:{port}"
            raise
        self._connections: set[Connection] = set()

    @property
    def origin(self) -> str:
        """URL of the server, with the port that the system chose for port 0."""
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        return f"http://{host}:{self._socket.getsockname()[1]}"

    async def start(self) -> None:
        """Wait for the start-up delay, then serve."""
        await asyncio.sleep(self._options.startup_delay)
        loop = asyncio.get_running_loop()
        self._state = state = _state(self._options, self._replica, self._tokenizer, loop)
        self._routes = _routes(self._options, TextRoutes(state), ControlRoutes(state))
        self._server = await loop.create_server(
            lambda: Connection(loop, self._handle, self._connections),
            sock=self._socket,
            backlog=_BACKLOG,
        )

    async def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Fail `/health`, refuse new text, let answers end for so long, then close everything."""
        self._state.draining = True
        deadline = time.monotonic() + grace_seconds
        # Polled, since counting the end of each answer is on the hot path and this happens once.
        while self._state.truth.in_flight and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_DRAIN_POLL_SECONDS)
        self._server.close()
        for realtime in self._state.distinct_engines:
            realtime.close()
        for connection in tuple(self._connections):
            connection.close()
        await self._server.wait_closed()

    def _handle(self, request: Request, connection: Connection) -> None:
        if not self._authorized(request):
            connection.respond_json(401, {"error": "Unauthorized"})
            return
        methods = self._routes.get(request.path)
        if methods is None:
            connection.respond_json(404, {"detail": "Not Found"})
            return
        route = methods.get(request.method)
        if route is None:
            allowed = {"allow": ", ".join(methods)}
            connection.respond_json(405, {"detail": "Method Not Allowed"}, allowed)
            return
        try:
            route(request, connection)
        except ApiError as error:
            connection.respond_json(error.status, error.document())

    def _authorized(self, request: Request) -> bool:
        key = self._options.api_key
        if key is None or not request.path.startswith("/v1"):
            return True
        given = request.headers.get("authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {key}".encode())


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _state(
    options: Options, replica: int, tokenizer: Tokenizer, loop: asyncio.AbstractEventLoop
) -> State:
    # Names that share a choice share its engine; equal choices of two names do not.
    choices = {id(choice): choice for choice in options.engines.values()}
    made = {
        key: RealTime(new_engine(choice.scheduler, choice.settings), loop)
        for key, choice in choices.items()
    }
    engines = {name: made[id(choice)] for name, choice in options.engines.items()}
    sizes = {name: choice.settings.block_size for name, choice in options.engines.items()}
    faults = Faults(options.seed, replica)
    faults.update(options.faults, time.monotonic_ns())
    return State(
        options=options,
        limits=Limits(
            models=options.models,
            max_model_len=options.max_model_len,
            block_size=sizes[options.models[0]],
            block_sizes=sizes,
            tokenizer=tokenizer,
        ),
        engines=engines,
        faults=faults,
        truth=Truth(options.log_requests),
        metrics=Metrics(
            options.server_style, {name: realtime.engine for name, realtime in engines.items()}
        ),
    )


def _routes(options: Options, text: TextRoutes, control: ControlRoutes) -> _Routes:
    routes: dict[str, Mapping[str, Handler]] = {
        "/v1/chat/completions": {"POST": text.chat},
        "/v1/completions": {"POST": text.completions},
        "/v1/models": {"GET": text.models},
        "/tokenize": {"POST": text.tokenize},
        "/health": {"GET": control.health},
        "/version": {"GET": control.version},
        "/metrics": {"GET": control.metrics},
        "/admin/counters": {"GET": control.counters},
        "/admin/reset_counters": {"POST": control.reset_counters},
        "/admin/requests": {"GET": control.requests},
        "/admin/faults": {"GET": control.faults, "POST": control.faults},
    }
    sglang = options.server_style is ServerStyle.SGLANG
    if sglang:
        routes["/flush_cache"] = {"GET": control.flush_cache, "POST": control.flush_cache}
    elif options.dev_mode:
        routes["/reset_prefix_cache"] = {"POST": control.reset_prefix_cache}
    if options.profiler:
        methods = ("GET", "POST") if sglang else ("POST",)
        routes["/start_profile"] = dict.fromkeys(methods, control.start_profile)
        routes["/stop_profile"] = dict.fromkeys(methods, control.stop_profile)
    return routes
