"""The embedded cluster as a thing that is started and stopped: threads, processes, addresses."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.clusters import Api, collection, eventually
from tare.devcluster.cluster import DevCluster

if TYPE_CHECKING:
    from tare.devcluster.node.containers import PodContext

PODS = collection("", "pods", "default")
SLEEP = "import time; time.sleep(600)"


def pod(name: str, image: str = "python", **container: Any) -> Any:
    return {
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": image, **container}],
        },
    }


def running(document: Any) -> bool:
    return bool(document["status"]["phase"] == "Running")


def alive(process: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_two_clusters_beside_each_other_share_no_address(tmp_path: Path) -> None:
    server = (
        "import os, socket, time; s = socket.create_server((os.environ['IP'], 8000)); "
        "time.sleep(600)"
    )
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    document = pod("p", command=["python", "-c", server], env=env)
    document["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 8000}}
    images: dict[str, list[str]] = {"python": []}
    addresses = []
    with DevCluster(images=images) as first, DevCluster(images=images) as second:
        for number, cluster in enumerate((first, second)):
            kubeconfig = cluster.write_kubeconfig(tmp_path / f"{number}")
            async with Api.open(kubeconfig) as api:
                await api.must_create(PODS, document)
                ready = await api.until(
                    f"{PODS}/p",
                    lambda found: found["status"].get("containerStatuses", [{}])[0].get("ready"),
                )
                addresses.append(ready["status"]["podIP"])

    assert addresses[0] != addresses[1]


async def test_nothing_outlives_a_stopped_cluster(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(os.getpid(), child.pid)\n"
        "time.sleep(600)"
    )
    with DevCluster(images={"python": []}) as cluster:
        async with Api.open(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
            await api.must_create(PODS, pod("p", command=["python", "-c", script]))
            processes = await printed_numbers(api)
        assert all(alive(process) for process in processes)

    assert len(processes) == 2
    assert not any(alive(process) for process in processes)


async def printed_numbers(api: Api) -> list[int]:
    """Wait for the line of numbers that a pod prints."""
    numbers: list[int] = []

    async def printed() -> bool:
        answer = await api.get(f"{PODS}/p/log")
        if answer.status == 200:
            numbers[:] = map(int, answer.body.split())
        return bool(numbers)

    await eventually(printed)
    return numbers


def test_nothing_outlives_a_cluster_that_was_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import json, sys, time, urllib.request
        from tare.devcluster.cluster import DevCluster

        script = (
            "import os, subprocess, sys, time\\n"
            "c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\\n"
            "print(os.getpid(), c.pid)\\n"
            "time.sleep(600)"
        )
        container = {"name": "c", "image": "python", "command": ["python", "-c", script]}
        body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
        with DevCluster(images={"python": []}) as cluster:
            pods = f"{cluster.url}/api/v1/namespaces/default/pods"
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(pods, json.dumps(body).encode(), headers)
            urllib.request.urlopen(request).read()
            numbers = ""
            while not numbers:
                time.sleep(0.02)
                try:
                    numbers = urllib.request.urlopen(f"{pods}/p/log").read().decode()
                except urllib.error.HTTPError:
                    pass
            print(numbers, flush=True)
            time.sleep(600)
        """
    )
    path = tmp_path / "program.py"
    path.write_text(program)
    cluster = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)
    assert cluster.stdout is not None
    processes = [int(number) for number in cluster.stdout.readline().split()]
    before = [alive(process) for process in processes]

    os.kill(cluster.pid, signal.SIGKILL)
    cluster.communicate()

    assert before == [True, True]
    end = time.monotonic() + 10
    while any(alive(process) for process in processes):
        assert time.monotonic() < end, "a pod's process outlived the cluster"
        time.sleep(0.02)


async def test_a_runner_plays_pods_without_processes(tmp_path: Path) -> None:
    async def stub(context: PodContext) -> int:
        context.log(f"{context.name} {context.env['ROLE']} {' '.join(context.args)}")
        await context.stopping.wait()
        return 3

    with DevCluster(runners={"stub": stub}) as cluster:
        async with Api.open(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
            env = [{"name": "ROLE", "value": "worker"}]
            for number in range(20):
                document = pod(f"p{number}", "stub", env=env, command=["work"], args=["--fast"])
                document["metadata"]["finalizers"] = ["test.tare.dev/hold"]
                await api.must_create(PODS, document)
            for number in range(20):
                await api.until(f"{PODS}/p{number}", running)
            log = await api.get(f"{PODS}/p7/log")
            await api.delete(f"{PODS}/p7")
            ended = await api.until(
                f"{PODS}/p7", lambda found: found["status"]["phase"] == "Failed"
            )

    assert log.body == "p7 worker work --fast\n"
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == 3


async def test_a_runner_that_raises_ends_its_pod_with_the_traceback(tmp_path: Path) -> None:
    async def broken(_context: PodContext) -> int:
        await asyncio.sleep(0)
        raise RuntimeError("no luck")

    with DevCluster(runners={"stub": broken}) as cluster:
        async with Api.open(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
            await api.must_create(PODS, pod("p", "stub"))
            await api.until(f"{PODS}/p", lambda found: found["status"]["phase"] == "Failed")
            log = await api.get(f"{PODS}/p/log")

    assert "RuntimeError: no luck" in log.body


async def test_a_pod_does_not_see_the_clusters_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/somewhere")
    monkeypatch.setenv("MY_SECRET", "x")
    script = "import os; print(sorted(os.environ.keys() & {'KUBECONFIG', 'MY_SECRET', 'PATH'}))"
    with DevCluster(images={"python": []}) as cluster:
        async with Api.open(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
            await api.must_create(PODS, pod("p", command=["python", "-c", script]))
            await api.until(f"{PODS}/p", lambda found: found["status"]["phase"] == "Succeeded")
            log = await api.get(f"{PODS}/p/log")

    assert log.body == "['PATH']\n"


async def test_a_command_that_does_not_exist_fails_the_pod(tmp_path: Path) -> None:
    with DevCluster(images={"python": []}) as cluster:
        async with Api.open(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
            await api.must_create(PODS, pod("p", command=["no-such-program"]))
            failed = await api.until(
                f"{PODS}/p", lambda found: found["status"]["phase"] == "Failed"
            )
            log = await api.get(f"{PODS}/p/log")

    state = failed["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == 127
    assert log.body == "exec no-such-program: No such file or directory\n"


async def test_a_pod_that_fits_again_is_scheduled(tmp_path: Path) -> None:
    requests = {"requests": {"cpu": "1500m"}}
    command = ["python", "-c", SLEEP]
    with DevCluster(images={"python": []}, cpus=2) as cluster:
        async with Api.open(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
            await api.must_create(PODS, pod("a", command=command, resources=requests))
            await api.until(f"{PODS}/a", running)
            await api.must_create(PODS, pod("b", command=command, resources=requests))
            waiting = await api.until(f"{PODS}/b", lambda found: found["status"].get("conditions"))
            await api.delete(f"{PODS}/a")
            placed = await api.until(f"{PODS}/b", running)

    assert waiting["status"]["conditions"][0]["reason"] == "Unschedulable"
    assert placed["spec"]["nodeName"] == "devcluster"


async def test_requests_are_audited_with_their_user_agent(tmp_path: Path) -> None:
    with DevCluster() as cluster:
        async with Api.open(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
            await api.get(PODS, limit=5)
        [entry] = cluster.requests

    assert (entry.method, entry.path) == ("GET", f"{PODS}?limit=5")
    assert "aiohttp" in entry.user_agent


def test_a_port_that_is_taken_is_told_to_the_caller() -> None:
    with DevCluster() as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(OSError, match="address already in use"), DevCluster(port=port):
            pass


async def test_a_volume_that_cannot_be_mounted_is_said_so(tmp_path: Path) -> None:
    document = pod("p", volumeMounts=[{"name": "v", "mountPath": "/v"}], command=["true"])
    document["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "c"}}]
    events = collection("", "events", "default")
    with DevCluster(images={"python": []}) as cluster:
        async with Api.open(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
            await api.must_create(PODS, document)

            async def reported() -> bool:
                answer = await api.get(events, fieldSelector="reason=FailedMount")
                return len(answer.body["items"]) == 1

            await eventually(reported)
            waiting = (await api.get(f"{PODS}/p")).body

    assert waiting["status"]["phase"] == "Pending"
