"""Write docs/reference/ from the code: `python docs/generate.py`.

What can be read from the code is not written by hand. `tests/unit/test_docs.py` fails when a page
differs from what this program makes of the code.
"""

# ruff: noqa: INP001 - a script beside the pages, no package

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tare.api.crd import THAWED
from tare.api.reasons import CellState, ConditionType, Reason, RunPhase
from tare.api.unbuilt import UNBUILT
from tare.cli.exits import Exit
from tare.measure.counts import Count
from tare.measure.hooks import CallOutcome, HookKind
from tare.measure.metrics import METRICS, statistics_of
from tare.telemetry.metrics import Metrics
from tare.telemetry.run_series import HEADLINES, LiveCell, RunName, RunState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from enum import Enum

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
CRD = ROOT / "crds" / "benchmarkruns.tare.dev.yaml"
BUDGET = """\
A run's series go when the run is deleted. A live run has at most 200: those of its first 24 cells,
of the current phase, and a summary. An hour after its end at most ten are left. All runs together
have at most 20,000; beyond that the runs that were updated longest ago lose theirs, and
`tare_series_evicted_total` says so.
"""
NOTE = "<!-- Written by docs/generate.py; change the code instead. -->\n"


def main() -> None:
    """Write every page that differs."""
    for name, text in pages().items():
        path = REFERENCE / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def pages() -> dict[str, str]:
    """All generated pages by file name."""
    return {
        "benchmarkrun.md": benchmark_run_page(yaml.safe_load(CRD.read_text())),
        "exit-codes.md": exit_codes_page(),
        "measures.md": measures_page(),
        "metrics.md": metrics_page(),
        "not-built.md": not_built_page(),
        "reasons.md": reasons_page(),
    }


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Lay out a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |\n" for row in lines
    )


def member_docs(enum: type[Enum]) -> dict[str, str]:
    """Read the docstrings below an enum's members, which Python itself throws away."""
    [node] = ast.parse(textwrap.dedent(inspect.getsource(enum))).body
    assert isinstance(node, ast.ClassDef)
    docs = {}
    for before, after in zip(node.body, node.body[1:], strict=False):
        match before, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = " ".join(text.split())
            case _:
                pass
    return docs


def reasons_page() -> str:
    """Phases, conditions, states of cells and reasons."""
    docs = member_docs(ConditionType)
    conditions = ([f"`{kind}`", docs.get(kind.name, "")] for kind in ConditionType)
    return (
        f"# Reasons and phases\n\n{NOTE}\n"
        "Scripts may rely on every name here; messages are for people and change.\n\n"
        "## Phases of a run\n\n`status.phase` is derived for people. Scripts wait for conditions:\n"
        "`kubectl wait benchmarkrun/NAME --for=condition=Finished`.\n\n"
        f"{listing(RunPhase)}\n"
        f"## Conditions\n\n{table(['type', 'meaning'], conditions)}\n"
        f"## States of a cell\n\n{listing(CellState)}\n"
        "## Reasons\n\nOf conditions and of failed cells.\n\n"
        f"{listing(Reason)}"
    )


def listing(enum: type[Enum]) -> str:
    """All values of an enum in one paragraph."""
    return textwrap.fill(", ".join(f"`{member.value}`" for member in enum) + ".", 100) + "\n"


def exit_codes_page() -> str:
    """Exit codes of the command."""
    docs = member_docs(Exit)
    rows = [
        [str(code.value), code.name.lower().replace("_", " "), docs.get(code.name, "")]
        for code in Exit
    ]
    return (
        f"# Exit codes\n\n{NOTE}\n"
        "Of `tare run`, `tare demo` and `tare compare`. When several apply, the first of"
        " invalid, failed, regression, goals missed and not conclusive is it.\n\n"
        f"{table(['code', 'name', 'meaning'], rows)}"
    )


def metrics_page() -> str:
    """Every series that the operator exports, read from an exposition in which all occur."""
    families = text_string_to_metric_families(exercised().render().decode())
    rows = []
    for family in sorted(families, key=lambda family: family.name):
        if not family.name.startswith("tare_"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown = ", ".join(f"`{label}`" for label in sorted(labels))
        rows.append([f"`{name}`", family.type, shown, family.documentation])
    return (
        f"# Prometheus metrics\n\n{NOTE}\n"
        "The operator serves them at `/metrics`. Times are in seconds.\n\n"
        f"{table(['series', 'type', 'labels', 'meaning'], rows)}\n"
        f"{BUDGET}"
    )


def measures_page() -> str:
    """Every number that a trial gives, with its definition."""
    rows = []
    for metric in METRICS.values():
        source = f" ([source]({metric.source}))" if metric.source else ""
        statistics = ", ".join(statistics_of(metric.name))
        rows.append(
            [f"`{metric.name}`", metric.unit.value, statistics, f"{metric.description}{source}"]
        )
    counts = member_docs(Count)
    return (
        f"# Measures\n\n{NOTE}\n"
        "Latencies are those of ok requests. Percentiles are nearest-rank, of the merged requests\n"
        "of all workers.\n\n"
        f"{table(['metric', 'unit', 'statistics', 'definition'], rows)}\n"
        "## Counts\n\nOf the profiling phases; they stand beside every number.\n\n"
        f"{table(['count', 'meaning'], [[f'`{c.value}`', counts.get(c.name, '')] for c in Count])}"
    )


def not_built_page() -> str:
    """Fields that the schema describes and this version refuses."""
    rows = [[f"`spec.{row.path}`", row.advice] for row in UNBUILT]
    return (
        f"# Not built yet\n\n{NOTE}\n"
        "The schema describes the whole API, so that a manifest need not change later. A run that"
        " asks for one of these is refused with this advice; nothing is ignored silently.\n\n"
        f"{table(['field', 'advice'], rows)}"
    )


def exercised() -> Metrics:
    """Metrics in which every series occurs."""
    metrics = Metrics()
    run = RunName("bench", "run")
    state = RunState(
        model="m", server="vllm", phase=RunPhase.RUNNING, cells={CellState.MEASURED: 1},
        goals_met=True,
    )  # fmt: skip
    metrics.update_run(run, state)
    metrics.publish_cell(run, "0", {line.metric: {line.statistic: 1.0} for line in HEADLINES})
    live = LiveCell(
        cell="0", phase="profiling", in_flight=1, issued=1, ok=1, failed=0, ttft_p50=1, ttft_p99=1
    )
    metrics.show_live(run, live)
    metrics.hook_calls.labels(HookKind.RESET, CallOutcome.CONFIRMED)
    metrics.requests.labels("ok")
    metrics.inbox_requests.labels("wait", "200")
    return metrics


def benchmark_run_page(crd: Mapping[str, Any]) -> str:
    """Every field of the manifest, from the schema that the API server enforces."""
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties = schema["properties"]
    rows = list(fields(properties["spec"], "spec"))
    rules = [
        [f"`{path}`", str(rule.get("message", rule["rule"]))]
        for path, rule in rules_of(properties["spec"], "spec")
    ]
    return (
        f"# BenchmarkRun\n\n{NOTE}\n"
        "`apiVersion: tare.dev/v1alpha1`, `kind: BenchmarkRun`. "
        "`kubectl explain benchmarkrun.spec` shows the same.\n\n"
        f"## Fields\n\n{table(['field', 'type', 'meaning'], rows)}\n"
        "## Rules\n\nThe API server refuses a manifest that breaks one of these; more are checked"
        " by the operator and by `tare validate`.\n\n"
        f"{table(['where', 'rule'], rules)}\n"
        "Once the run has started, that is once `status.startTime` is set, the spec is frozen; only"
        f" {', '.join(f'`{name}`' for name in THAWED)} may change.\n"
    )


def fields(schema: Mapping[str, Any], path: str) -> Iterator[list[str]]:
    """Rows of an object's fields, depth first in the order of the schema."""
    for name, child in (schema.get("properties") or {}).items():
        here = f"{path}.{name}"
        text = " ".join(str(child.get("description", "")).split())
        required = ", required" if name in (schema.get("required") or ()) else ""
        yield [f"`{here}`", type_of(child) + required, text]
        items = child.get("items") or {}
        yield from fields(child, here)
        yield from fields(items, f"{here}[]")


def rules_of(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All CEL rules of a schema with the path that they are about."""
    for rule in schema.get("x-kubernetes-validations") or ():
        yield path, rule
    for name, child in (schema.get("properties") or {}).items():
        yield from rules_of(child, f"{path}.{name}")
    if items := schema.get("items"):
        yield from rules_of(items, f"{path}[]")


def type_of(schema: Mapping[str, Any]) -> str:
    """Name a field's type for people."""
    if values := schema.get("enum"):
        return ", ".join(f"`{plain(value)}`" for value in values)
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items') or {})}"
    return str(schema.get("type") or "any")


def plain(value: object) -> str:
    """Write a value as YAML would on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000)
    return text.removesuffix("...\n").strip()


if __name__ == "__main__":
    main()
