"""Markers and prefixes from a manifest to the servers, and what the caches made of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from support.bed import QUICK, Bed, Server, condition, manifest, told
from tare.kube.port import CONFIG_MAP, RUN, Document
from tare.manifests.metadata import Owner
from tare.measure.cache import CacheWord
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from tare.results.document import TrialDocument

SYSTEM = "You are a helpful assistant."
RID = re.compile(r"\[rid:([0-9a-f]{12})\]")
WARMUP = "[warmup]\n\n"
REQUESTS = 8


def run_of(target: str, *, prefix: dict[str, Any] | None = None, **spec: Any) -> Document:
    """A warm-up and a profiling phase of eight requests each."""
    phases = [
        {"name": kind, "kind": kind, "type": "concurrency", "concurrency": 4, "requests": REQUESTS}
        for kind in ("warmup", "profiling")
    ]
    dataset = {
        "prompts": {"isl": 64, "osl": 4, "cacheBust": {"target": target}},
        "prefixPrompts": prefix or {},
    }
    return manifest(**{"dataset": dataset, "phases": phases, **spec})


async def log(servers: list[Server]) -> list[dict[str, Any]]:
    """What all servers were asked by the load, in the order of its arrival."""
    entries = [entry for server in servers for entry in await server.requests()]
    load = [entry for entry in entries if entry["max_tokens"] == 4]
    return sorted(load, key=lambda entry: int(entry["arrived_ns"]))


def contents(entry: dict[str, Any]) -> list[str]:
    return [message["content"] for message in entry["messages"]]


async def trials_of(bed: Bed, run: Document) -> list[TrialDocument]:
    metadata = run["metadata"]
    owner = Owner(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
    return list((await ResultStore(bed.cluster).load_trials(owner)).values())


async def test_a_trajectory_keeps_its_marker_in_both_phases_for_any_worker(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK)
    submitted = await bed.submit(
        namespace,
        run_of(
            "first_turn_prefix",
            prefix={"sharedSystemLength": 64},
            workers={"replicas": 2, "processes": 2, "startTimeoutSeconds": 60},
        ),
    )
    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded"
    entries = await log(servers)
    questions = [contents(entry)[1] for entry in entries]
    warmup, profiling = questions[:REQUESTS], questions[REQUESTS:]
    assert sorted(warmup) == sorted(profiling)
    assert len({RID.findall(question)[0] for question in profiling}) == REQUESTS
    assert len({contents(entry)[0] for entry in entries}) == 1
    assert {entry["prompt_tokens"] for entry in entries} == {64 + 64 + 2 * 7 + 5}
    (trial,) = await trials_of(bed, submitted)
    assert (trial.dataset["exact"], trial.dataset["counted_by"]) == (True, "server")
    assert trial.dataset["marker_tokens"] == 3


async def test_b86_an_isolated_warm_up_leaves_profiling_cold(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK, replicas=1)
    document = run_of("warmup_isolation_system", prefix={"sharedSystemLength": 64})
    document["spec"]["endpoint"]["resetKvCache"] = True
    await bed.submit(namespace, document)
    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded"
    entries = await log(servers)
    systems = [contents(entry)[0] for entry in entries]
    assert all(system.startswith(WARMUP) for system in systems[:REQUESTS])
    assert len(set(systems[REQUESTS:])) == 1
    assert WARMUP not in systems[-1]
    assert entries[REQUESTS]["cached_tokens"] == 0


async def test_b88_repeats_with_a_reset_each_begin_as_cold_as_the_first(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    document = run_of("none", trials={"count": 3})
    document["spec"]["endpoint"]["resetKvCache"] = True
    document["spec"]["phases"] = document["spec"]["phases"][1:]
    await bed.submit(namespace, document)
    status = await bed.finished(namespace, seconds=90)
    assert told(status, "CacheAsPlanned")["reason"] == "AsPlanned"
    assert (await server.counters())["resets"] == 3
    cached = [entry["cached_tokens"] for entry in await log([server])]
    assert cached == [0] * 3 * REQUESTS


async def test_b88_repeats_without_a_reset_find_what_the_first_left_and_are_told(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    document = run_of("none", trials={"count": 3})
    document["spec"]["phases"] = document["spec"]["phases"][1:]
    run = await bed.submit(namespace, document)
    status = await bed.finished(namespace, seconds=90)
    cached = [entry["cached_tokens"] for entry in await log([server])]
    assert cached == [0] * REQUESTS + [64] * 2 * REQUESTS
    found = told(status, "CacheAsPlanned")
    assert (found["status"], found["reason"]) == ("False", "WarmCache")
    assert "cell 0: trials 1, 2: phase profiling: 512 of " in found["message"]
    (cell,) = status["cells"]
    assert cell["cache"] == "WarmCache"
    caches = sorted((t.record.trial, t.record.cache) for t in await trials_of(bed, run))
    words = [cache.verdict for _, cache in caches if cache is not None]
    assert words == [CacheWord.AS_PLANNED, CacheWord.CONTAMINATED, CacheWord.CONTAMINATED]


async def test_b88_repeats_without_a_reset_are_apart_when_trajectories_are_marked(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    document = run_of("first_turn_prefix", trials={"count": 3})
    document["spec"]["phases"] = document["spec"]["phases"][1:]
    await bed.submit(namespace, document)
    await bed.finished(namespace, seconds=90)
    entries = await log([server])
    assert [entry["cached_tokens"] for entry in entries] == [0] * 3 * REQUESTS
    assert len({RID.findall(contents(entry)[0])[0] for entry in entries}) == 3 * REQUESTS


async def test_a_system_prompt_comes_from_a_config_map_that_is_applied_later(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK, replicas=1)
    source = {"configMapKeyRef": {"name": "prompts", "key": "brief"}}
    await bed.submit(namespace, run_of("system_suffix", prefix={"systemPromptFrom": source}))
    waiting = f"ConfigMap {namespace}/prompts does not exist"
    await bed.until(
        namespace, lambda status: waiting in told(status, "TargetReady").get("message", "")
    )
    body = {"metadata": {"name": "prompts"}, "data": {"brief": SYSTEM}}
    await bed.cluster.create(CONFIG_MAP, namespace, body)
    assert (await bed.finished(namespace))["phase"] == "Succeeded"
    systems = {contents(entry)[0] for entry in await log(servers)}
    assert len(systems) == REQUESTS
    assert all(system.startswith(f"{SYSTEM}\n\n[rid:") for system in systems)


async def test_sessions_of_several_turns_send_back_what_was_answered(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK)
    document = run_of("none")
    document["spec"]["dataset"]["turns"] = {"mean": 2.0, "turnDelay": "10ms"}
    document["spec"]["phases"] = [
        {
            "name": "profiling",
            "kind": "profiling",
            "type": "sessions",
            "concurrency": 2,
            "sessions": 4,
        }
    ]
    submitted = await bed.submit(namespace, document)
    assert (await bed.finished(namespace))["phase"] == "Succeeded"
    entries = [entry["messages"] for entry in await log(servers)]
    roles = sorted("".join(message["role"][0] for message in entry) for entry in entries)
    assert roles == ["u"] * 4 + ["uau"] * 4
    assert all(entry[1]["content"].strip() for entry in entries if len(entry) > 1)
    (trial,) = await trials_of(bed, submitted)
    assert trial.record.summary is not None
    assert trial.record.summary.counts["ok"] == 8


async def test_a_marker_that_falls_through_is_told_with_the_acceptance(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.submit(namespace, run_of("system_prefix", suspend=True))
    status = await bed.until(namespace, lambda status: bool(told(status, "Accepted")))
    assert condition(status, "Accepted") == "True"
    assert "goes to the first user turn" in told(status, "Accepted")["message"]
    await bed.cluster.delete(RUN, namespace, "run")
