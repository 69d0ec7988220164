from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.memory_cluster import MemoryCluster
from tare.api import names
from tare.kube.errors import Forbidden, Invalid, KubeError, Unavailable
from tare.kube.port import RUN, Document, Kind
from tare.runtime.drain import LOOK, drain, main
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FINISHED = {"conditions": [{"type": "Finished", "status": "True"}]}


def run(name: str, *, finished: bool = False, finalizers: tuple[str, ...] = ()) -> Document:
    return {
        "metadata": {"name": name, "namespace": "bench", "finalizers": list(finalizers)},
        "spec": {},
        "status": FINISHED if finished else {},
    }


class Cluster(MemoryCluster):
    """A cluster whose operator ends a cancelled run some looks later."""

    def __init__(self, *runs: Document, looks: int = 2) -> None:
        super().__init__()
        self.looks = looks
        self.list_failures: list[KubeError] = []
        self.patches: list[tuple[str, Document]] = []
        self._runs = list(runs)
        for number, document in enumerate(runs):
            document["metadata"]["uid"] = str(number)

    @override
    async def list(
        self, kind: Kind, namespace: str, *, labels: Mapping[str, str] | None = None
    ) -> list[Document]:
        assert (kind, labels) == (RUN, None)
        if self.list_failures:
            raise self.list_failures.pop()
        cancelled = [each for each in self._runs if each["spec"].get("cancel")]
        if cancelled:
            self.looks -= 1
        for each in cancelled if self.looks < 0 else ():
            each["status"], each["metadata"]["finalizers"] = FINISHED, []
        return [each for each in self._runs if namespace in ("", each["metadata"]["namespace"])]

    @override
    async def patch(
        self, kind: Kind, namespace: str, name: str, body: Document, **_: Any
    ) -> Document:
        assert (kind, namespace) == (RUN, "bench")
        self._write("patch", name)
        found = next(each for each in self._runs if each["metadata"]["name"] == name)
        found["spec"].update(body["spec"])
        return found


async def drained(cluster: Cluster, *namespaces: str, patience: float = 10) -> tuple[str, ...]:
    return await drain(cluster, namespaces, clock=FakeClock(), patience=patience)


async def test_without_runs_there_is_nothing_to_wait_for() -> None:
    assert await drained(Cluster()) == ()


async def test_a_live_run_is_cancelled_once_and_waited_for() -> None:
    cluster, clock = Cluster(run("a", finalizers=(names.FINALIZER_DRIVER,))), FakeClock()
    assert await drain(cluster, (), clock=clock, patience=10) == ()
    assert cluster.calls == [("patch", "a")]
    assert clock.now() == 3 * LOOK


async def test_a_finished_run_is_left_alone() -> None:
    cluster = Cluster(run("a", finished=True))
    assert await drained(cluster) == ()
    assert cluster.calls == []


async def test_a_finished_run_whose_profiler_is_still_being_stopped_is_waited_for() -> None:
    cluster = Cluster(run("a", finished=True, finalizers=(names.FINALIZER_PROFILER,)))
    assert await drained(cluster) == ("bench/a",)
    assert cluster.calls == []


async def test_somebody_elses_finalizer_is_not_waited_for() -> None:
    assert await drained(Cluster(run("a", finished=True, finalizers=("example.com/x",)))) == ()


async def test_a_run_that_is_being_deleted_is_waited_for_without_a_word() -> None:
    deleted = run("a", finalizers=(names.FINALIZER_DRIVER,))
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = Cluster(deleted)
    assert await drained(cluster) == ("bench/a",)
    assert cluster.calls == []


async def test_runs_of_other_namespaces_are_not_looked_at() -> None:
    cluster = Cluster(run("a"))
    assert await drained(cluster, "other") == ()
    assert cluster.calls == []


async def test_what_is_left_after_the_time_is_named() -> None:
    cluster = Cluster(run("b"), run("a"), looks=100)
    assert await drained(cluster) == ("bench/a", "bench/b")


async def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    cluster = Cluster(run("a"))
    cluster.list_failures = [Unavailable("down")]
    cluster.failures = [Unavailable("down")]
    assert await drained(cluster) == ()
    assert cluster.calls == [("patch", "a")] * 2


async def test_a_run_of_an_older_schema_does_not_keep_the_others_from_being_cancelled() -> None:
    cluster = Cluster(run("a"), run("b"))
    cluster.failures = [Invalid("spec.x: unknown")]
    assert await drained(cluster) == ("bench/a",)


async def test_a_missing_right_is_not_waited_for() -> None:
    cluster = Cluster(run("a"))
    cluster.failures = [Forbidden("may not patch")]
    with pytest.raises(Forbidden):
        await drained(cluster)


def test_without_a_cluster_the_command_says_so_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main(["--timeout", "1"]) == 1
    assert "no usable Kubernetes configuration" in capsys.readouterr().err
