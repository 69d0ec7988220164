"""`tare plan`: what the caches will hold, phase by phase, before anything runs.

The plan is the one that the operator holds a measured trial against. Offline there is no tokenizer
and no server to ask, so lengths are estimates here and marked as such.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.text import Text

from tare.cli.exits import Exit
from tare.cli.manifests import ManifestError, name_of
from tare.cli.tables import plain_table
from tare.cli.validate import runs_in
from tare.decide.acceptance import Accepted, accept
from tare.decide.cache import block_sizes, cache_settings
from tare.decide.children import TrialKey
from tare.manifests.metadata import Owner
from tare.manifests.order import Address, build_order
from tare.net.allowlist import AllowList
from tare.plan.cache.expected import Servers
from tare.plan.cache.outline import Frame
from tare.plan.cache.plan import PhasePlan, assumptions, plan_before
from tare.workload.dataset import DatasetError, conversations
from tare.workload.outline import outline_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tare.api.spec import BenchmarkRunSpec
    from tare.decide.records import Cell
    from tare.plan.cache.outline import Outline
    from tare.plan.cache.plan import CacheSettings

__all__ = ["command"]

_UNREAD: Final = "word " * 200
"""Stands for a system prompt in a ConfigMap, which is not read offline."""
_LEGEND: Final = (
    "Whole blocks, at most: warm by an earlier phase or turn, shared by earlier requests of the "
    "phase itself, cold."
)
_NAMED: Final = 3
"""Cells of one plan that are named."""
# As ChatML, on which most templates are modelled:
# https://huggingface.co/docs/transformers/chat_templating
_BEFORE_TEXT: Final = 4
"""Tokens of a chat template before the first text."""
_A_MESSAGE: Final = 7
"""For each message, what parts it from the next one included."""
_ANSWER: Final = 5
"""Before the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the user says of servers that are not asked."""

    replicas: int
    block_size: int | None
    blocks: int | None


@click.command("plan")
@click.argument("file", metavar="FILE")
@click.option("--replicas", type=click.IntRange(min=1), default=1, help="Servers of the target.")
@click.option("--block-size", type=click.IntRange(min=1), help="Tokens in a block of the KV cache.")
@click.option("--kv-blocks", type=click.IntRange(min=1), help="Blocks in the pool of each server.")
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    *,
    replicas: int,
    block_size: int | None,
    kv_blocks: int | None,
) -> None:
    """Print how many prompt tokens each phase of the runs in FILE will find cached, and why.

    FILE is read as `tare validate` does ('-' for standard input); no cluster and no server is
    asked. A phase whose interval is wider than 5 % of its prompt tokens decides nothing: what would
    help is said beside it.
    """
    known = _Known(replicas=replicas, block_size=block_size, blocks=kv_blocks)
    try:
        runs = list(runs_in(file))
    except ManifestError as error:
        click.echo(str(error), err=True)
        ctx.exit(Exit.INVALID)
    if not runs:
        click.echo(f"{file}: no BenchmarkRun in it", err=True)
        ctx.exit(Exit.INVALID)
    accepted = [accept(run, allow_targets=AllowList.everything()) for run in runs]
    problems = [str(p) for one in accepted if not isinstance(one, Accepted) for p in one.problems]
    if problems:
        click.echo("\n".join(problems), err=True)
        ctx.exit(Exit.INVALID)
    console = Console()
    for run, outcome in zip(runs, accepted, strict=True):
        assert isinstance(outcome, Accepted)
        for names, plan in _distinct(outcome.cells, known):
            plan.show(console, _title(run, outcome, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The plan of one cell."""

    phases: tuple[PhasePlan, ...]
    assumptions: tuple[str, ...]
    problem: str = ""
    """Why there is none."""

    def show(self, console: Console, title: str) -> None:
        """Print it as tables."""
        if self.problem:
            console.print(Text(f"{title}: {self.problem}", style="bold red"))
            return
        console.print(Text(title, style="bold"), soft_wrap=True)
        console.print(_phases_table(self.phases))
        console.print(_parts_table(self.phases))
        console.print(Text(_LEGEND, style="dim"), soft_wrap=True)
        for phase in self.phases:
            for line, style in _remarks(phase):
                console.print(Text(f"{phase.name}: {line}", style=style), soft_wrap=True)
        console.print(Text("Assumed:"))
        for sentence in self.assumptions:
            console.print(Text(f"  {sentence}"), soft_wrap=True)


def _distinct(cells: Sequence[Cell], known: _Known) -> list[tuple[list[str], _Plan]]:
    """Return the plans that differ, each with the names of its cells."""
    found: dict[_Plan, list[str]] = {}
    for cell in cells:
        found.setdefault(_plan(cell.spec, known), []).append(cell.name)
    return [(names, plan) for plan, names in found.items()]


def _plan(spec: BenchmarkRunSpec, known: _Known) -> _Plan:
    unread = spec.dataset.system_prompt_source is not None
    order = build_order(
        Owner(name="plan", namespace="default", uid="plan"),
        TrialKey(0, 0, 1),
        spec,
        address=Address(urls=("http://localhost",)),
        headers=(),
        system_prompt=_UNREAD if unread else None,
    )
    chat = order.target.type == "chat"
    try:
        outline = outline_of(order.dataset, conversations(order), chat=chat)
    except DatasetError as error:
        return _Plan(phases=(), assumptions=(), problem=str(error))
    size = known.block_size or block_sizes(spec.endpoint.server)[0]
    settings = cache_settings(
        spec,
        Servers(block=size, replicas=known.replicas, blocks=known.blocks),
        block_known=known.block_size is not None,
    )
    framed = replace(outline, frame=_chat_ml(outline))
    said = tuple(_assumed(framed, settings, unread=unread))
    # A plan that doubts every length would say nothing.
    phases = plan_before(replace(framed, exact=True), order.phases, settings)
    return _Plan(phases=phases, assumptions=said)


def _chat_ml(outline: Outline) -> Frame:
    messages = outline.messages if outline.chat else 0
    return Frame(
        starts=tuple(_BEFORE_TEXT + _A_MESSAGE * place for place in range(messages)) or (0,),
        total=_A_MESSAGE * messages + _ANSWER * bool(messages),
        turn=2 * _A_MESSAGE,
    )


def _assumed(outline: Outline, settings: CacheSettings, *, unread: bool) -> Sequence[str]:
    said = list(assumptions(outline, settings))
    if outline.chat and outline.frame is not None:
        said.append(f"The chat template adds {outline.frame.total} tokens, as ChatML would.")
    if unread:
        said.append("The system prompt's ConfigMap is not read: 200 words stand for it.")
    if settings.servers.replicas == 1:
        said.append("There is one replica; --replicas says otherwise.")
    return said


def _title(run: Any, outcome: Accepted, names: Sequence[str]) -> str:
    name = name_of(run)
    if len(outcome.cells) == 1:
        return f"{name}: cached prompt tokens (approximate)"
    shown, more = "; ".join(names[:_NAMED]), len(names) - _NAMED
    shown += f" and {more} more" if more > 0 else ""
    return f"{name}, {shown}: cached prompt tokens (approximate)"


def _phases_table(phases: Sequence[PhasePlan]) -> Table:
    table = plain_table("")
    table.add_column("Phase")
    for heading in ("Requests", "Prompt tokens", "Cached, at least", "at most"):
        table.add_column(heading, justify="right")
    table.add_column("Decidable")
    for phase in phases:
        expected = phase.expected
        numbers = ["?"] * 4
        if expected is not None:
            values = (expected.requests, expected.prompt_tokens, expected.low, expected.high)
            numbers = [f"{value:,}" for value in values]
        table.add_row(phase.name, *numbers, _decidable(phase))
    return table


def _parts_table(phases: Sequence[PhasePlan]) -> Table:
    table = plain_table("")
    table.add_column("Phase")
    table.add_column("Part of the prompts")
    for heading in ("Tokens", "Warm", "Shared", "Cold"):
        table.add_column(heading, justify="right")
    for phase in phases:
        for part in phase.expected.parts if phase.expected is not None else ():
            cold = part.tokens - part.warm - part.shared
            shares = (_share(n, part.tokens) for n in (part.warm, part.shared, cold))
            table.add_row(phase.name, part.part, f"{part.tokens:,}", *shares)
    return table


def _share(tokens: int, of: int) -> str:
    return f"{tokens / of:.0%}" if tokens else "-"


def _decidable(phase: PhasePlan) -> Text:
    if phase.is_decidable:
        return Text("yes", style="green")
    if phase.open_ended:
        return Text("after the run", style="yellow")
    return Text("no", style="bold red")


def _remarks(phase: PhasePlan) -> Sequence[tuple[str, str]]:
    found = []
    if phase.why:
        found.append((f"{phase.why}. What would help: {phase.remedy}.", "yellow"))
    if phase.expected is not None and phase.expected.finds_nothing:
        text = "everything is warm by plan: what others left in the cache could not be found."
        found.append((text, "yellow"))
    return found
