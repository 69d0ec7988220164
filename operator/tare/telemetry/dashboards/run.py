"""The dashboard *Run*: how one run stands, what is measured now, what its cells came to.

It asks `run_series` for what belongs to the run and `metrics` for the operator's own health. The
series of a run carry the run's namespace, so scrape with `honorLabels: true`.
"""

from __future__ import annotations

from typing import Any

from tare.telemetry.dashboards.panels import Form, Panel, Query, Row, Unit, Variable, dashboard

__all__ = ["run_dashboard"]

_RUN = 'namespace="$namespace", run="$run"'


def run_dashboard() -> dict[str, Any]:
    """Build the dashboard."""
    return dashboard(
        uid="tare-run",
        title="Tare / Run",
        description="One BenchmarkRun: its state, the phase that is measured now, and its cells.",
        variables=[
            Variable(name="namespace", query="label_values(tare_run_info, namespace)"),
            Variable(name="run", query='label_values(tare_run_info{namespace="$namespace"}, run)'),
        ],
        rows=[_state(), _live(), _cells(), _calls(), _operator()],
    )


def _state() -> Row:
    return Row(
        title="Run",
        height=5,
        panels=[
            Panel(
                title="Phase",
                description="Phase of the run, as `kubectl get benchmarkrun` prints it.",
                form=Form.NAME,
                unit=Unit.NONE,
                width=6,
                queries=[Query(f"tare_run_phase{{{_RUN}}}", "{{phase}}")],
            ),
            Panel(
                title="Model",
                description="Model and kind of server that the run measures.",
                form=Form.NAME,
                unit=Unit.NONE,
                width=6,
                queries=[Query(f"tare_run_info{{{_RUN}}}", "{{model}} on {{server}}")],
            ),
            Panel(
                title="Goals",
                description="Whether every goal is met in every cell; empty until it is decided.",
                form=Form.STATES,
                unit=Unit.NONE,
                width=4,
                values={0: ("Missed", "red"), 1: ("Met", "green")},
                queries=[Query(f"tare_run_goals_met{{{_RUN}}}", "goals")],
            ),
            Panel(
                title="Cells",
                description="Cells of the sweep by state. An Invalid one was measured, but not "
                "under the conditions that were asked for.",
                form=Form.STATES,
                unit=Unit.COUNT,
                queries=[Query(f"sum by (state) (tare_run_cells{{{_RUN}}})", "{{state}}")],
            ),
        ],
    )


def _live() -> Row:
    return Row(
        title="Now",
        panels=[
            Panel(
                title="Requests in flight",
                description="Requests that the workers have sent and not yet seen the end of.",
                form=Form.LINES,
                unit=Unit.COUNT,
                queries=[Query(f"tare_live_in_flight{{{_RUN}}}", "{{cell}} {{phase}}")],
            ),
            Panel(
                title="Requests of the phase",
                description="Since the current phase began; each phase starts at zero.",
                form=Form.LINES,
                unit=Unit.COUNT,
                queries=[
                    Query(
                        f"sum by (phase, state) (tare_live_requests{{{_RUN}}})",
                        "{{phase}} {{state}}",
                    )
                ],
            ),
            Panel(
                title="Time to first token",
                description="Percentiles of the current phase so far, over all workers.",
                form=Form.LINES,
                unit=Unit.SECONDS,
                queries=[
                    Query(
                        f"tare_live_time_to_first_token_seconds{{{_RUN}}}",
                        "{{phase}} {{statistic}}",
                    )
                ],
            ),
        ],
    )


def _cells() -> Row:
    return Row(
        title="Measured cells",
        panels=[
            _cell(
                "Time to first token, p50",
                "Send to first text of ok requests, median; trials of a cell are merged.",
                'tare_cell_time_to_first_token_seconds{statistic="p50", %s}',
                Unit.SECONDS,
            ),
            _cell(
                "Time to first token, p99",
                "Send to first text of ok requests.",
                'tare_cell_time_to_first_token_seconds{statistic="p99", %s}',
                Unit.SECONDS,
            ),
            _cell(
                "Request latency, p99",
                "Send to last text of ok requests.",
                'tare_cell_request_latency_seconds{statistic="p99", %s}',
                Unit.SECONDS,
            ),
            _cell(
                "Request throughput",
                "Ok requests per second of the profiling phase.",
                "tare_cell_request_throughput{%s}",
                Unit.PER_SECOND,
            ),
            _cell(
                "Output tokens",
                "Output tokens per second of the profiling phase.",
                "tare_cell_output_token_throughput{%s}",
                Unit.TOKENS_PER_SECOND,
            ),
            _cell(
                "Error rate",
                "Requests that were not ok, of all that were issued. Latencies above are of ok "
                "requests only.",
                "tare_cell_error_rate_ratio{%s}",
                Unit.RATIO,
            ),
        ],
    )


def _cell(title: str, description: str, selector: str, unit: Unit) -> Panel:
    return Panel(
        title=title,
        description=description,
        form=Form.BARS,
        unit=unit,
        queries=[Query(selector % _RUN, "{{cell}}")],
    )


def _calls() -> Row:
    return Row(
        title="Calls, of all runs",
        panels=[
            Panel(
                title="Hook calls",
                description="POSTs to replicas that reset the cache or start and stop the "
                "profiler, by how they ended.",
                form=Form.LINES,
                unit=Unit.PER_SECOND,
                queries=[_rate("tare_hook_calls_total", "hook", "outcome")],
            ),
            Panel(
                title="Requests of finished trials",
                description="Added when a trial is stored, so it comes in steps.",
                form=Form.LINES,
                unit=Unit.PER_SECOND,
                queries=[_rate("tare_requests_total", "outcome")],
            ),
            Panel(
                title="Inbox",
                description="Messages of workers by answer. 401 is a wrong token, 410 sends home a "
                "worker whose attempt is over.",
                form=Form.LINES,
                unit=Unit.PER_SECOND,
                queries=[_rate("tare_operator_inbox_requests_total", "message", "code")],
            ),
        ],
    )


def _operator() -> Row:
    return Row(
        title="The operator",
        panels=[
            Panel(
                title="Workers",
                description="Workers that hold a request open at the inbox, waiting for a start.",
                form=Form.LINES,
                unit=Unit.COUNT,
                queries=[Query("sum(tare_operator_workers_connected)", "waiting")],
            ),
            Panel(
                title="Event loop lag, p99",
                description="How late the operator wakes up. Starts of phases spread by as much.",
                form=Form.LINES,
                unit=Unit.SECONDS,
                queries=[_p99("tare_operator_event_loop_lag_seconds", "lag")],
            ),
            Panel(
                title="Reactions, decisions and status patches, p99",
                description="Time of one decision on a run, and of one write of its status.",
                form=Form.LINES,
                unit=Unit.SECONDS,
                queries=[
                    _p99("tare_operator_reaction_seconds", "reaction"),
                    _p99("tare_operator_decision_seconds", "decision"),
                    _p99("tare_operator_status_patch_seconds", "status patch"),
                ],
            ),
        ],
    )


def _rate(counter: str, *labels: str) -> Query:
    """Per second, over all operators, one series for each combination of the labels."""
    return Query(
        f"sum by ({', '.join(labels)}) (rate({counter}[$__rate_interval]))",
        " ".join(f"{{{{{label}}}}}" for label in labels),
    )


def _p99(histogram: str, legend: str) -> Query:
    buckets = f"sum by (le) (rate({histogram}_bucket[$__rate_interval]))"
    return Query(f"histogram_quantile(0.99, {buckets})", legend)
