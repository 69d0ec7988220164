"""`tare demo`: the whole product in a minute, on any Linux machine.

Two simulated servers, the embedded cluster, the real operator and real workers, and the manifest of
`examples/quickstart.yaml`. At the end the servers themselves are asked what was done to them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
from rich.console import Console

from tare.cli.embedded import embedded, shipped
from tare.cli.export import export_option
from tare.cli.outcome import show_outcome
from tare.cli.progress import Progress
from tare.cli.run_file import load_run
from tare.cli.servers import Servers, read_counters, start_servers
from tare.cli.session import run_session
from tare.cli.tables import proof_table
from tare.cli.watch import apply, follow
from tare.kube.port import CONFIG_MAP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tare.cli.embedded import Embedded
    from tare.cli.run_file import RunFile
    from tare.kube.port import Document

__all__ = ["command"]

_REPLICAS = 2


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep everything running until Ctrl-C.")
@export_option
@click.pass_context
def command(context: click.Context, *, keep: bool, export: Sequence[Path]) -> None:
    """Benchmark two simulated servers on an embedded cluster, in about a minute.

    Nothing is installed and nothing is left behind: the cluster, its pods and the operator are
    processes of this command. The manifest is examples/quickstart.yaml.
    """
    run_file = load_run(str(shipped("examples") / "quickstart.yaml"))
    console = Console(stderr=True)
    context.exit(run_session(_demo(run_file, console, export, keep=keep), console))


async def _demo(run_file: RunFile, console: Console, export: Sequence[Path], *, keep: bool) -> int:
    endpoint = run_file.run["spec"]["endpoint"]
    servers = Servers(
        name=endpoint["service"]["name"],
        namespace=run_file.namespace,
        model=endpoint["model"],
        replicas=_REPLICAS,
    )
    output = Console()
    async with embedded(namespaces=[run_file.namespace]) as cluster:
        with Progress(console) as progress:
            progress.say("The embedded cluster and the operator are ready.")
            await start_servers(cluster.cluster, servers)
            progress.say(f"Started {_REPLICAS} simulated servers behind Service {servers.name}.")
            stored = await apply(cluster, run_file)
            finished = await follow(cluster, stored, progress)
        code = await show_outcome(output, cluster.cluster, finished, export=export)
        output.print(proof_table(await read_counters(cluster.cluster, servers)))
        await _tell_where(output, cluster, finished, keep=keep)
        if keep:
            await asyncio.Event().wait()
    return code


async def _tell_where(console: Console, cluster: Embedded, run: Document, *, keep: bool) -> None:
    namespace, name = run["metadata"]["namespace"], run["metadata"]["name"]
    stored = await cluster.cluster.list(CONFIG_MAP, namespace)
    names = [document["metadata"]["name"] for document in stored]
    lines = [
        f"Results: {len(names)} ConfigMaps, {names[0]} … {names[-1]}" if names else "No results.",
        f"Metrics: {cluster.operator.url}/metrics",
    ]
    if keep:
        lines += [
            "",
            "Everything keeps running until Ctrl-C. In another terminal:",
            f"  export KUBECONFIG={cluster.kubeconfig}",
            f"  kubectl -n {namespace} get br,pods,configmaps",
            f"  kubectl -n {namespace} describe br {name}",
            f"  curl -s {cluster.operator.url}/metrics | grep tare_",
        ]
    else:
        lines.append(
            "Both go with this command; --keep leaves them, --export demo.html is a report."
        )
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
