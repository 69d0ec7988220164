from __future__ import annotations

import io

from rich.console import Console

from support.memory_cluster import MemoryCluster
from tare.cli.servers import Counters, Servers, start_servers
from tare.cli.tables import proof_table
from tare.kube.port import POD, SERVICE

SERVERS = Servers(name="qwen", namespace="bench", model="Qwen/Qwen3-8B", replicas=2)


async def test_the_servers_are_pods_that_the_service_selects() -> None:
    cluster = MemoryCluster()
    await start_servers(cluster, SERVERS)
    service = await cluster.get(SERVICE, "bench", "qwen")
    pods = await cluster.list(POD, "bench", labels=service["spec"]["selector"])
    assert [pod["metadata"]["name"] for pod in pods] == ["qwen-0", "qwen-1"]


async def test_a_server_is_ready_when_it_says_so_and_serves_the_model_of_the_run() -> None:
    cluster = MemoryCluster()
    await start_servers(cluster, SERVERS)
    [container] = (await cluster.get(POD, "bench", "qwen-1"))["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": 8000}
    assert container["args"][-2:] == ["--model", "Qwen/Qwen3-8B"]


def test_the_proof_says_which_profiler_still_runs() -> None:
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as capture:
        console.print(
            proof_table(
                [
                    Counters(
                        pod=f"qwen-{index}",
                        requests=1234,
                        resets=3,
                        profiler_starts=3,
                        profiler_stops=3 - index,
                        profiler_running=bool(index),
                    )
                    for index in (0, 1)
                ]
            )
        )
    rows = [line.split() for line in capture.get().splitlines() if "qwen" in line]
    assert rows == [
        ["qwen-0", "1,234", "3", "3", "3", "no"],
        ["qwen-1", "1,234", "3", "3", "2", "yes"],
    ]
