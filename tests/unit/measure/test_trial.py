from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.measured import MS, histogram, phase_result, worker_result
from tare.api.reasons import Reason
from tare.measure.cost import Cost
from tare.measure.trial import TrialSummary, summarize
from tare.measure.wire import decode, encode

if TYPE_CHECKING:
    from tare.measure.messages import PhaseResult, WorkerResult


def trial(
    *phases: PhaseResult, goodput: dict[str, float] | None = None, cost: Cost | None = None
) -> TrialSummary:
    return summarize([worker_result(*phases)], goodput=goodput or {}, cost=cost)


def scalar(summary: TrialSummary, metric: str) -> float | None:
    return summary.metrics.get(metric, {}).get("mean")


def test_times_are_published_in_seconds_and_tokens_as_they_are() -> None:
    summary = trial(
        phase_result(
            histograms={
                "time_to_first_token": histogram([100 * MS, 200 * MS]),
                "output_tokens": histogram([16, 32]),
            }
        )
    )

    assert summary.metrics["time_to_first_token"] == {
        "mean": pytest.approx(0.15),
        "p50": 0.1,
        "p90": 0.2,
        "p95": 0.2,
        "p99": 0.2,
        "min": 0.1,
        "max": 0.2,
        "stddev": pytest.approx(0.05),
    }
    assert summary.metrics["output_tokens"]["mean"] == 24


def test_rates_count_what_arrived_in_the_window_and_the_drain_has_its_own() -> None:
    summary = trial(
        phase_result(
            seconds=10.0,
            drain_seconds=2.5,
            counts={
                "issued": 100,
                "ok": 100,
                "ok_in_window": 80,
                "output_tokens_in_window": 900,
                "prompt_tokens_in_window": 5000,
            },
            histograms={"output_tokens": histogram([10] * 100)},
        )
    )

    assert scalar(summary, "request_throughput") == 8.0
    assert scalar(summary, "output_token_throughput") == 90.0
    assert scalar(summary, "prompt_token_throughput") == 500.0
    assert scalar(summary, "request_throughput_with_drain") == 8.0
    assert scalar(summary, "output_token_throughput_with_drain") == 80.0


def test_several_profiling_phases_are_one_and_warm_up_is_in_no_metric() -> None:
    latency = {"request_latency": histogram([100 * MS])}
    summary = trial(
        phase_result(name="warmup", kind="warmup", counts={"issued": 5, "ok": 1}),
        phase_result(
            name="one", seconds=10.0, counts={"issued": 9, "ok": 9, "ok_in_window": 9},
            histograms=latency,
        ),
        phase_result(
            name="two", seconds=20.0, counts={"issued": 1, "ok": 1, "ok_in_window": 1},
            histograms={"request_latency": histogram([300 * MS])},
        ),
    )  # fmt: skip

    assert summary.counts == {"issued": 10, "ok": 10, "ok_in_window": 10}
    assert scalar(summary, "error_rate") == 0.0
    assert scalar(summary, "request_throughput") == pytest.approx(10 / 30)
    assert summary.metrics["request_latency"]["mean"] == pytest.approx(0.2)
    assert [phase.name for phase in summary.phases] == ["warmup", "one", "two"]


def test_a_cancelled_request_counts_as_an_error() -> None:
    summary = trial(phase_result(counts={"issued": 10, "ok": 7, "failed": 1, "cancelled": 2}))

    assert scalar(summary, "error_rate") == pytest.approx(0.3)


def test_what_cannot_be_computed_is_left_out() -> None:
    summary = trial(
        phase_result(seconds=0.0, counts={}, histograms={"time_to_first_token": {}}),
        goodput={"time_to_first_token": 0.2},
    )

    assert summary.metrics == {}


def test_without_limits_there_is_no_goodput() -> None:
    summary = trial(phase_result(counts={"issued": 10, "ok": 10, "good": 10}))

    assert "goodput" not in summary.metrics
    assert "good_request_fraction" not in summary.metrics


def test_tokens_per_chunk_is_over_all_requests() -> None:
    summary = trial(
        phase_result(histograms={"output_tokens": histogram([16, 4]), "chunks": histogram([4, 1])})
    )

    assert scalar(summary, "tokens_per_chunk") == 4.0


def test_cost_follows_from_the_price_and_the_throughput() -> None:
    phase = phase_result(seconds=10.0, counts={"output_tokens_in_window": 10_000})

    summary = trial(phase, cost=Cost(usd_per_hour=2.5, replicas=2))

    assert scalar(summary, "monthly_cost") == 2.5 * 2 * 730
    # 1,000 tokens/s are 3.6 million an hour, for 5 dollars.
    assert scalar(summary, "cost_per_million_output_tokens") == pytest.approx(5 / 3.6)


def test_tokens_that_never_came_have_no_price() -> None:
    summary = trial(phase_result(), cost=Cost(usd_per_hour=2.5))

    assert "cost_per_million_output_tokens" not in summary.metrics
    assert scalar(summary, "monthly_cost") == 1825.0


def test_one_saturated_worker_among_many_is_not_averaged_away() -> None:
    calm = histogram([MS] * 1000)
    results = [worker_result(phase_result(), index=i, event_loop_lag=calm) for i in range(9)]
    busy = worker_result(phase_result(), index=9, event_loop_lag=histogram([12 * MS] * 100))

    summary = summarize([*results, busy], goodput={}, cost=None)

    assert summary.client.event_loop_lag_p99 == pytest.approx(0.012)
    assert [concern.reason for concern in summary.concerns] == [Reason.CLIENT_SATURATED]
    assert "12.0 ms" in summary.concerns[0].message


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (
            phase_result(counts={"issued": 100}, errors={"client_exhausted": 5, "connect": 9}),
            "5 requests failed since a worker had no port",
        ),
        (
            phase_result(histograms={"send_lag": histogram([11 * MS] * 9)}),
            "Requests were sent 11.0 ms late at p99",
        ),
    ],
)
def test_a_client_that_was_not_up_to_the_load_is_of_concern_with_its_reason(
    phase: PhaseResult, words: str
) -> None:
    lag = histogram([20 * MS])
    busy = summarize([worker_result(phase, event_loop_lag=lag)], goodput={}, cost=None)
    calm = summarize([worker_result(phase)], goodput={}, cost=None)

    for summary in (busy, calm):
        (concern,) = summary.concerns
        assert concern.reason is Reason.CLIENT_SATURATED
        assert words in concern.message
    assert "lagged 20.0 ms" in busy.concerns[0].message
    assert "lagged" not in calm.concerns[0].message


def test_being_late_by_the_timers_precision_is_sound() -> None:
    phase = phase_result(histograms={"send_lag": histogram([1 * MS] * 9)})

    assert summarize([worker_result(phase)], goodput={}, cost=None).concerns == ()


def test_pauses_and_connections_of_all_workers_are_the_clients_health() -> None:
    warmup = phase_result(name="warmup", kind="warmup", connections_opened=50)
    parts = [
        worker_result(
            warmup, phase_result(connections_opened=2), index=index, gc_pauses=histogram(pauses)
        )
        for index, pauses in enumerate(([1 * MS, 2 * MS], [5 * MS]))
    ]

    client = summarize(parts, goodput={}, cost=None).client

    assert client.gc_pause_max == pytest.approx(0.005)
    assert client.gc_pause_seconds == pytest.approx(0.008)
    assert client.connections_opened == 4


def test_a_request_that_was_cancelled_on_purpose_is_in_no_share() -> None:
    counts = {"issued": 10, "ok": 6, "cancelled": 4, "planned_cancel": 2, "good": 4}

    metrics = summarize(
        [worker_result(phase_result(counts=counts))], goodput={"request_latency": 1.0}, cost=None
    ).metrics

    assert metrics["error_rate"]["mean"] == pytest.approx(0.25)
    assert metrics["good_request_fraction"]["mean"] == pytest.approx(0.5)


def test_a_summary_can_leave_its_single_requests_behind() -> None:
    rows = {"most": 9, "level": 0, "columns": {}}
    summary = summarize([worker_result(phase_result(rows=rows))], goodput={}, cost=None)

    assert summary.phases[0].rows == rows
    assert summary.without_rows().phases[0].rows == {}


def test_ten_milliseconds_of_lag_are_still_sound() -> None:
    calm = worker_result(phase_result(), event_loop_lag=histogram([10 * MS]))

    assert summarize([calm], goodput={}, cost=None).concerns == ()


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        ("not_streamed", Reason.NOT_STREAMING),
        ("output_length_mismatch", Reason.OUTPUT_LENGTH_MISMATCH),
        ("empty_output", Reason.EMPTY_OUTPUT),
        ("missing_done", Reason.MISSING_DONE),
    ],
)
def test_odd_answers_are_of_concern_with_their_number(count: str, reason: Reason) -> None:
    summary = trial(phase_result(counts={"issued": 50, "ok": 40, count: 2}))

    (concern,) = summary.concerns
    assert concern.reason is reason
    assert concern.message.startswith("2 of 40 answers ")


def test_one_answer_in_a_hundred_may_have_another_length() -> None:
    counts = {"issued": 100, "ok": 100, "output_length_mismatch": 1}
    summary = trial(phase_result(counts=counts))

    assert summary.concerns == ()
    assert scalar(summary, "output_length_mismatch") == 0.01


def test_a_worker_that_was_stopped_makes_the_trial_incomplete() -> None:
    results = [
        worker_result(phase_result(), cpu_seconds=1.5),
        worker_result(phase_result(), index=1, complete=False, cpu_seconds=2.0),
    ]

    summary = summarize(results, goodput={}, cost=None)

    assert not summary.complete
    assert (summary.client.workers, summary.client.cpu_seconds) == (2, 3.5)


def test_the_order_of_the_workers_does_not_matter() -> None:
    results: list[WorkerResult] = [
        worker_result(
            phase_result(
                counts={"ok": index, "issued": index},
                histograms={"request_latency": histogram(range(index * 50))},
            ),
            index=index,
        )
        for index in range(1, 4)
    ]

    forwards = summarize(results, goodput={}, cost=None)

    assert summarize(results[::-1], goodput={}, cost=None) == forwards


def test_a_summary_survives_its_way_through_a_config_map() -> None:
    summary = trial(
        phase_result(
            counts={"issued": 2, "ok": 1, "empty_output": 1},
            histograms={"request_latency": histogram([5 * MS])},
        )
    )

    assert decode(TrialSummary, encode(summary)) == summary
