"""From a server that is not there yet to one that takes the load's requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.scripted_http import Reply, ScriptedServer, json_reply, scripted
from support.silent import SilentNetwork
from tare.api.reasons import Reason
from tare.endpoint.client import ControlClient
from tare.endpoint.errors import TargetError
from tare.endpoint.preflight import Target, preflight
from tare.kube.errors import Forbidden, Unavailable
from tare.plan.order import TargetOrder

if TYPE_CHECKING:
    from support.certificates import Certificate
    from tare.measure.hooks import PreflightReport

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MODELS = json_reply({"object": "list", "data": [{"id": "tiny"}, {"id": "tiny-lora"}]})
LOADING = Reply(status=503, body=b"loading")
STREAM = Reply(body=b'data: {"choices":[{"delta":{"content":"yes"}}]}\n\ndata: [DONE]\n\n')
DEAD = Reply(
    body=b'data: {"error": {"message": "EngineCore encountered an issue.", "code": 500}}\n\n'
    b"data: [DONE]\n\n"
)
KEY = {"Authorization": "Bearer sk-secret-1"}


def ready(server: ScriptedServer) -> ScriptedServer:
    server.on("/health", Reply()).on("/v1/models", MODELS).on(CHAT, STREAM)
    return server.on("/version", json_reply({"version": "0.32.0"}))


def order(*urls: str, **settings: Any) -> TargetOrder:
    return TargetOrder(urls=urls, model=settings.pop("model", "tiny"), **settings)


async def check(
    target: TargetOrder, clock: FakeClock | None = None, *, ready_timeout: float = 600
) -> PreflightReport:
    async def find() -> Target:
        return Target(order=target, headers=KEY)

    async with ControlClient() as http:
        return await preflight(
            find, ready_timeout=ready_timeout, http=http, clock=clock or FakeClock(), tell=print
        )


async def test_a_ready_server_is_asked_four_things_and_its_version_is_kept() -> None:
    async with scripted() as server:
        ready(server)
        report = await check(order(server.origin, host="qwen.bench.svc:8000"))
        asked = [(request.method, request.path) for request in server.requests]
        hosts = {request.headers["Host"] for request in server.requests}
        keys = {request.headers["Authorization"] for request in server.requests}
    assert report.ok
    assert report.server_version == "0.32.0"
    assert asked == [
        ("GET", "/health"),
        ("GET", "/v1/models"),
        ("POST", CHAT),
        ("GET", "/version"),
    ]
    assert hosts == {"qwen.bench.svc:8000"}
    assert keys == {"Bearer sk-secret-1"}


async def test_the_probe_is_a_request_of_the_load_cut_short() -> None:
    extra = {
        "temperature": 0,
        "min_tokens": 128,
        "stream_options": {"continuous_usage_stats": True},
    }
    async with scripted() as server:
        ready(server)
        await check(order(server.origin, extra_body=extra))
        (probe,) = server.calls(CHAT)
    assert probe.json() == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Say yes."}],
        "max_tokens": 2,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "temperature": 0,
        "min_tokens": 2,
    }


async def test_the_probe_of_plain_completions_has_a_prompt_and_no_stream_options() -> None:
    async with scripted() as server:
        ready(server).on(COMPLETIONS, json_reply({"choices": [{"text": "yes"}]}))
        report = await check(order(server.origin, type="completions", streaming=False))
        (probe,) = server.calls(COMPLETIONS)
    assert report.ok
    assert probe.json() == {
        "model": "tiny",
        "prompt": "Say yes.",
        "max_tokens": 2,
    }


async def test_a_base_path_comes_before_every_route() -> None:
    async with scripted() as server:
        server.on("/qwen/health", Reply()).on("/qwen/v1/models", MODELS).on(f"/qwen{CHAT}", STREAM)
        assert (await check(order(f"{server.origin}/qwen/v1"))).ok


@pytest.mark.parametrize("status", [401, 403, 404, 405, 501])
async def test_a_server_without_a_health_route_is_judged_by_its_models(status: int) -> None:
    async with scripted() as server:
        ready(server).on("/health", Reply(status=status))
        report = await check(order(server.origin))
    assert report.ok


async def test_a_server_that_loads_is_waited_for_and_sees_no_request_before() -> None:
    clock = FakeClock()
    async with scripted() as server:
        ready(server)
        server.on("/health", *[LOADING] * 5, Reply())
        report = await check(order(server.origin), clock)
        paths = [request.path for request in server.requests]
    assert report.ok
    assert clock.now() == 5
    assert paths.index(CHAT) > paths.index("/v1/models") > 5


@pytest.mark.parametrize(
    ("path", "reply"),
    [
        ("/health", LOADING),
        ("/v1/models", LOADING),
        ("/v1/models", Reply(status=404)),
        ("/v1/models", json_reply({"data": []})),
        ("/v1/models", Reply(body=b"<html>")),
        (CHAT, LOADING),
        (CHAT, Reply(status=429)),
        (CHAT, Reply(status=500)),
        (CHAT, DEAD),
    ],
)
async def test_what_can_pass_is_waited_for_until_the_timeout(path: str, reply: Reply) -> None:
    clock = FakeClock()
    async with scripted() as server:
        ready(server).on(path, reply)
        report = await check(order(server.origin), clock, ready_timeout=3)
    assert not report.ok
    assert not report.final
    assert report.reason is Reason.TARGET_NOT_READY
    assert server.origin + path in report.message
    assert report.message.endswith("(waited 3 s)")
    assert clock.now() == 3


async def test_a_server_that_refuses_connections_is_starting() -> None:
    clock = FakeClock()
    async with scripted() as gone:
        url = gone.origin
    report = await check(order(url), clock, ready_timeout=3)
    assert report.reason is Reason.TARGET_NOT_READY
    assert not report.final
    assert clock.now() == 3


async def test_a_model_that_is_not_served_is_named_beside_those_that_are() -> None:
    async with scripted() as server:
        ready(server)
        report = await check(order(server.origin, model="huge"))
        assert server.calls(CHAT) == []
    assert report.final
    assert report.reason is Reason.MODEL_NOT_SERVED
    assert report.message == (
        f"endpoint.model is 'huge', but {server.origin}/v1/models lists: tiny, tiny-lora"
    )


@pytest.mark.parametrize(
    "refusal",
    [
        json_reply({"error": {"message": "stream_options: extra field", "code": 400}}, 400),
        json_reply({"error": {"message": "stream_options: extra field", "code": 400}}),
        Reply(body=b'data: {"error": {"message": "stream_options: extra", "code": 400}}\n\n'),
        json_reply({"detail": "stream_options: unprocessable"}, 422),
    ],
    ids=["400", "200 with an error", "200 with an error event", "422"],
)
async def test_a_refused_request_is_final_with_the_servers_words(refusal: Reply) -> None:
    async with scripted() as server:
        ready(server).on(CHAT, refusal)
        report = await check(order(server.origin))
        assert len(server.calls(CHAT)) == 1
    assert report.final
    assert report.reason is Reason.REQUEST_REJECTED
    assert "stream_options" in report.message


@pytest.mark.parametrize("path", ["/v1/models", CHAT])
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_final_says_where_to_look_and_is_not_shown(
    path: str, status: int
) -> None:
    async with scripted() as server:
        ready(server).on(path, Reply(status=status, body=b"bad key: Bearer sk-secret-1"))
        report = await check(order(server.origin))
    assert report.final
    assert report.reason is Reason.REQUEST_REJECTED
    assert "endpoint.apiKeySecretRef" in report.message
    assert "sk-secret-1" not in report.message


async def test_a_certificate_that_is_not_trusted_is_final_at_once(certificate: Certificate) -> None:
    clock = FakeClock()
    async with scripted(certificate.server()) as server:
        report = await check(order(server.origin), clock)
    assert report.final
    assert report.reason is Reason.TARGET_NOT_READY
    assert "certificate" in report.message
    assert clock.now() == 0


async def test_every_address_is_probed_and_one_that_refuses_ends_the_wait_for_the_others() -> None:
    async with scripted() as good, scripted() as loading, scripted() as refusing:
        ready(good)
        ready(loading).on("/health", LOADING)
        ready(refusing).on(CHAT, Reply(status=400, body=b"no such field"))
        report = await check(
            order(loading.origin, good.origin, refusing.origin), ready_timeout=10**9
        )
    assert report.final
    assert refusing.origin in report.message


@pytest.mark.parametrize("reply", [Reply(status=404), Reply(body=b"0.32"), json_reply([1])])
async def test_a_server_without_a_version_is_as_good(reply: Reply) -> None:
    async with scripted() as server:
        ready(server).on("/version", reply)
        report = await check(order(server.origin))
    assert report.ok
    assert report.server_version == ""


async def test_a_target_that_is_not_there_yet_is_looked_for_again() -> None:
    clock = FakeClock()
    looks = iter(
        [
            TargetError(Reason.TARGET_NOT_READY, "Service bench/qwen does not exist", final=False),
            Unavailable("the API server is restarting"),
        ]
    )
    told: list[str] = []
    async with scripted() as server, ControlClient() as http:
        ready(server)

        async def find() -> Target:
            if error := next(looks, None):
                raise error
            return Target(order=order(server.origin), headers={})

        report = await preflight(find, ready_timeout=60, http=http, clock=clock, tell=told.append)
    assert report.ok
    assert clock.slept == [1, 1]
    assert told == ["Service bench/qwen does not exist", "the API server is restarting"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TargetError(Reason.SECRET_MISSING, "kubectl …", final=True), Reason.SECRET_MISSING),
        (Forbidden("cannot list pods"), Reason.NOT_ALLOWED),
    ],
)
async def test_a_target_that_must_not_be_looked_at_is_not_looked_for_again(
    error: Exception, reason: Reason
) -> None:
    async def find() -> Target:
        raise error

    async with ControlClient() as http:
        report = await preflight(find, ready_timeout=60, http=http, clock=FakeClock(), tell=print)
    assert report.final
    assert report.reason is reason
    assert report.message == str(error)


async def test_a_server_that_never_answers_does_not_outlast_the_timeout() -> None:
    clock = FakeClock()

    async def find() -> Target:
        return Target(order=order("http://10.0.0.1:8000"), headers={})

    silent = SilentNetwork(clock)
    report = await preflight(find, ready_timeout=3, http=silent, clock=clock, tell=print)
    assert report.reason is Reason.TARGET_NOT_READY
    assert clock.now() == pytest.approx(3, abs=1)


async def test_what_is_waited_for_is_told_when_it_changes_and_not_with_each_look() -> None:
    clock = FakeClock()
    told: list[tuple[float, str]] = []

    async def find() -> Target:
        words = "no Service" if clock.now() < 15 else "no pod"
        raise TargetError(Reason.TARGET_NOT_READY, words, final=False)

    async with ControlClient() as http:
        await preflight(
            find,
            ready_timeout=60,
            http=http,
            clock=clock,
            tell=lambda words: told.append((clock.now(), words)),
        )
    assert told == [(0, "no Service"), (15, "no pod")]
