"""Answers that real servers gave to hooks, and what they mean."""

from __future__ import annotations

import pytest

from tare.endpoint.client import Answer, CallError, CallFailure
from tare.endpoint.hooks.outcomes import MAX_MESSAGE, classify, unanswered
from tare.measure.hooks import CallOutcome, HookKind

RESET, START = HookKind.RESET, HookKind.PROFILER_START
VLLM, FLUSH, DYNAMO = "/reset_prefix_cache", "/flush_cache", "/clear_kv_blocks"
CONFIRMED, UNVERIFIED = CallOutcome.CONFIRMED, CallOutcome.UNVERIFIED
BUSY, REFUSED = CallOutcome.BUSY, CallOutcome.REFUSED
FLUSHED = "Cache flushed.\nPlease check backend logs for more details."
FAILED_WORKERS = '{"cleared_workers":["a"],"failed_workers":[{"name":"b","error":"x"}]}'
NO_WORKERS = '{"message":"No active worker groups found"}'


@pytest.mark.parametrize(
    ("server", "path", "status", "body", "outcome"),
    [
        ("vllm", VLLM, 200, '{"success":true}', CONFIRMED),
        ("vllm", VLLM, 200, '{"success": false}', BUSY),
        ("vllm", VLLM, 200, "", UNVERIFIED),
        ("vllm", VLLM, 200, "{}", UNVERIFIED),
        ("vllm", VLLM, 200, "<html>welcome</html>", UNVERIFIED),
        ("vllm", VLLM, 200, "true", UNVERIFIED),
        ("vllm", VLLM, 204, "", UNVERIFIED),
        ("vllm", VLLM, 400, "bad query", REFUSED),
        ("vllm", VLLM, 404, '{"detail":"Not Found"}', REFUSED),
        ("vllm", VLLM, 409, "", BUSY),
        ("vllm", VLLM, 423, "", BUSY),
        ("vllm", VLLM, 429, "", BUSY),
        ("vllm", VLLM, 500, "engine is dead", REFUSED),
        ("vllm", VLLM, 503, "", BUSY),
        ("vllm", VLLM, 307, "", REFUSED),
        ("sglang", FLUSH, 200, FLUSHED, CONFIRMED),
        ("sglang", FLUSH, 200, "", UNVERIFIED),
        ("sglang", FLUSH, 400, "pending requests", BUSY),
        ("sglang", "/admin/flush", 400, "pending requests", BUSY),
        ("generic", FLUSH + "?timeout=5", 400, "pending requests", BUSY),
        ("generic", "/reset", 400, "pending requests", REFUSED),
        ("dynamo", DYNAMO, 200, '{"cleared_workers":["a"],"failed_workers":[]}', CONFIRMED),
        ("dynamo", DYNAMO, 200, FAILED_WORKERS, REFUSED),
        ("dynamo", DYNAMO, 200, NO_WORKERS, REFUSED),
        ("generic", VLLM, 200, '{"failed": ["10.0.0.3"]}', REFUSED),
    ],
)
def test_an_answer_to_a_reset_means(
    server: str, path: str, status: int, body: str, outcome: CallOutcome
) -> None:
    answer = Answer(status=status, body=body.encode())
    verdict = classify(RESET, answer, path=path, server=server, headers={})
    assert verdict.outcome is outcome
    assert verdict.retry is (outcome is BUSY)
    assert str(status) in verdict.message


@pytest.mark.parametrize("status", [400, 409, 429, 503])
def test_a_profiler_is_not_started_twice_because_the_server_is_busy(status: int) -> None:
    verdict = classify(
        START, Answer(status=status), path="/start_profile", server="sglang", headers={}
    )
    assert verdict.outcome is REFUSED
    assert not verdict.retry


@pytest.mark.parametrize(
    ("hook", "server", "status", "advice"),
    [
        (RESET, "vllm", 404, "VLLM_SERVER_DEV_MODE=1"),
        (RESET, "vllm", 405, "VLLM_SERVER_DEV_MODE=1"),
        (START, "vllm", 404, "--profiler-config"),
        (RESET, "trtllm", 404, "cacheBust"),
        (RESET, "generic", 501, "resetKvCache.path"),
        (START, "dynamo", 404, "DYN_SYSTEM_PORT"),
        (RESET, "vllm", 401, "endpoint.apiKeySecretRef"),
        (RESET, "vllm", 302, "redirects are not followed"),
    ],
)
def test_a_refusal_says_what_to_do(hook: HookKind, server: str, status: int, advice: str) -> None:
    verdict = classify(hook, Answer(status=status), path="/x", server=server, headers={})
    assert advice in verdict.message


def test_a_key_that_the_server_repeats_is_hidden_also_where_the_text_is_cut() -> None:
    key = {"Authorization": "Bearer sk-12345678"}
    for padding in range(480, 520):
        answer = Answer(status=500, body=b"x" * padding + b" sk-12345678")
        message = classify(RESET, answer, path=VLLM, server="vllm", headers=key).message
        assert "sk-" not in message


def test_the_advice_survives_a_long_answer() -> None:
    answer = Answer(status=404, body=b"<html>" * 5000)
    message = classify(RESET, answer, path=VLLM, server="vllm", headers={}).message
    assert "VLLM_SERVER_DEV_MODE=1" in message
    assert len(message) <= MAX_MESSAGE


@pytest.mark.parametrize(
    ("failure", "outcome", "retry"),
    [
        (CallFailure.TIMEOUT, CallOutcome.TIMEOUT, True),
        (CallFailure.UNREACHABLE, CallOutcome.UNREACHABLE, True),
        (CallFailure.CLOSED, CallOutcome.UNREACHABLE, True),
        (CallFailure.CERTIFICATE, CallOutcome.UNREACHABLE, False),
    ],
)
def test_no_answer_is_worth_another_try_unless_the_certificate_is_wrong(
    failure: CallFailure, outcome: CallOutcome, *, retry: bool
) -> None:
    verdict = unanswered(CallError(failure, "POST http://h/x: why"), RESET)
    assert (verdict.outcome, verdict.retry) == (outcome, retry)
    assert verdict.message.startswith("POST http://h/x: why")


def test_a_connection_that_a_mesh_cuts_names_the_way_out() -> None:
    error = CallError(CallFailure.CLOSED, "POST http://h/x: Connection reset by peer")
    assert "mTLS" in unanswered(error, RESET).message
    assert "resetKvCache.target" in unanswered(error, RESET).message
    assert "serverProfiler.target" in unanswered(error, START).message
