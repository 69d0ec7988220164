"""Odd manifests that are valid all the same."""

from __future__ import annotations

from support.manifest_rows.row import DELETE, ENDPOINT, PHASE, SECRET, Variation

__all__ = ["ACCEPTED"]

TARGETS = (
    "system_prefix",
    "system_suffix",
    "first_turn_prefix",
    "first_turn_suffix",
    "warmup_isolation_system",
    "warmup_isolation_first_turn",
)

ACCEPTED = (
    # Kubernetes allows 253 characters. Children get shortened names with a hash, labels too
    # (`api.names`), so a long name is no reason to refuse a run.
    Variation(name="name of 100 characters", change={"metadata.name": "q" * 100}),
    Variation(name="name of 253 characters", change={"metadata.name": "q" * 253}),
    Variation(name="name with dots", change={"metadata.name": "qwen.v1.2"}),
    Variation(name="port by number", change={f"{ENDPOINT}.service.port": 8000}),
    Variation(name="no port", change={f"{ENDPOINT}.service.port": DELETE}),
    Variation(
        name="own namespace, spelt out", change={f"{ENDPOINT}.service.namespace": "api-test"}
    ),
    Variation(
        name="model with slash, colon and capitals",
        change={f"{ENDPOINT}.model": "meta-llama/Llama-3.1-8B-Instruct:fp8@v2"},
    ),
    Variation(name="https with the system's authorities", change={f"{ENDPOINT}.tls": {}}),
    Variation(
        name="https with an own authority, straight to the pods",
        change={f"{ENDPOINT}.tls": {"caSecretRef": SECRET}, f"{ENDPOINT}.via": "Endpoints"},
    ),
    Variation(
        name="https with any certificate", change={f"{ENDPOINT}.tls.insecureSkipVerify": True}
    ),
    Variation(
        name="reset of a TensorRT-LLM that has a route",
        change={
            f"{ENDPOINT}.server": "trtllm",
            f"{ENDPOINT}.resetKvCache": {"path": "/reset_prefix_cache"},
        },
    ),
    Variation(name="metrics at a path", change={f"{ENDPOINT}.metricsPath": "/prometheus/metrics"}),
    Variation(
        name="reset with a query",
        change={f"{ENDPOINT}.resetKvCache": {"path": "/reset_prefix_cache?reset_external=true"}},
    ),
    Variation(
        name="reset of the connector, twice, of engines behind a router",
        change={
            f"{ENDPOINT}.resetKvCache": {
                "at": "Both",
                "resetExternal": True,
                "target": {"selector": {"app": "engine"}, "ports": [8000, 8001]},
            }
        },
    ),
    Variation(
        name="profile that is bounded",
        change={
            f"{ENDPOINT}.server": "vllm",
            f"{ENDPOINT}.serverProfiler": {
                "maxSeconds": 5,
                "maxIterations": 30,
                "startBody": {"delay_iterations": 2},
                "target": {"service": {"name": "engines"}},
            },
        },
    ),
    Variation(
        name="reset of Dynamo's engines",
        change={
            f"{ENDPOINT}.server": "dynamo",
            f"{ENDPOINT}.resetKvCache": {
                "path": "/engine/control/clear_kv_blocks",
                "target": {"ports": [9090]},
            },
        },
    ),
    Variation(
        name="hooks off",
        change={f"{ENDPOINT}.{hook}": False for hook in ("resetKvCache", "serverProfiler")},
    ),
    Variation(
        name="null in the body",
        change={f"{ENDPOINT}.extraBody": {"temperature": 0, "stop": None}},
    ),
    Variation(
        name="marker that is none", change={"spec.dataset.prompts.cacheBust": {"target": "none"}}
    ),
    Variation(name="sessions of one turn", change={"spec.dataset.turns": {"mean": 1}}),
    *(
        Variation(
            name=f"{target} {scope}",
            change={
                "spec.dataset.prompts.cacheBust": {"target": target, "scope": scope},
                "spec.dataset.prefixPrompts": {"sharedSystemLength": 17},
            },
        )
        for target in TARGETS
        for scope in ("Trajectory", "TrajectoryAndPhase")
    ),
    *(
        Variation(
            name=f"{target} without a system message",
            change={"spec.dataset.prompts.cacheBust": {"target": target, "carrier": carrier}},
        )
        for target in TARGETS
        if target != "warmup_isolation_system"
        for carrier in ("text", "salt")
    ),
    Variation(
        name="system prompt from a ConfigMap, and a user context",
        change={
            "spec.dataset.prefixPrompts": {
                "systemPromptFrom": {"configMapKeyRef": {"name": "prompts", "key": "brief"}},
                "userContextLength": 64,
            }
        },
    ),
    Variation(
        name="prefix pool of a completion",
        change={
            f"{ENDPOINT}.type": "completions",
            "spec.dataset.prefixPrompts": {"poolSize": 1, "poolLength": 64},
        },
    ),
    Variation(
        name="sessions of several turns",
        change={
            "spec.dataset.turns": {"mean": 2.5, "turnDelay": "500ms"},
            "spec.phases": [
                {
                    "name": "profiling",
                    "kind": "profiling",
                    "type": "sessions",
                    "concurrency": 2,
                    "sessions": 8,
                    "ramp": {"seconds": 5.5},
                }
            ],
            "spec.sweep": DELETE,
        },
    ),
    Variation(
        name="one prompt length of many", change={"spec.dataset.prompts.isl": {"values": [8, 9]}}
    ),
    Variation(name="fractional rate", change={f"{PHASE}.rate": 0.5}),
    Variation(
        name="seamless warm-up after a reset at the start",
        change={"spec.phases[0].seamless": True},
    ),
    Variation(name="random gaps", change={f"{PHASE}.type": "poisson"}),
    Variation(
        name="bursty gaps that ramp up",
        change={
            f"{PHASE}.type": "gamma",
            f"{PHASE}.smoothness": 0.25,
            f"{PHASE}.ramp": {"type": "exponential", "seconds": 5, "from": 0.5},
        },
    ),
    Variation(name="concurrency that ramps up", change={"spec.phases[0].ramp": {"seconds": 5.5}}),
    Variation(
        name="requests that are cancelled",
        change={f"{PHASE}.cancelShare": "10%", f"{PHASE}.cancelAfterSeconds": 0.5},
    ),
    Variation(name="goal with a fraction", change={"spec.goals[1].max": 0.5}),
    Variation(name="mean of one number", change={"spec.goals[1].statistic": "mean"}),
    Variation(
        name="API key in an own header",
        change={f"{ENDPOINT}.apiKeySecretRef": SECRET, f"{ENDPOINT}.apiKeyHeader": "x-api-key"},
    ),
    Variation(
        name="API key beside other headers",
        change={f"{ENDPOINT}.apiKeySecretRef": SECRET},
    ),
    Variation(
        name="cost goal with a price",
        change={
            "spec.cost": {"usdPerHour": "2.608"},
            "spec.goals": [{"metric": "monthly_cost", "max": "2000"}],
        },
    ),
    Variation(
        name="goodput goal with limits",
        change={
            "spec.goodput": {"time_to_first_token": "500ms"},
            "spec.goals": [{"metric": "good_request_fraction", "min": "95%"}],
        },
    ),
    Variation(
        name="no stream and a goal on whole requests",
        change={
            f"{ENDPOINT}.streaming": False,
            "spec.goals": [{"metric": "request_latency", "statistic": "p50", "max": "2s"}],
        },
    ),
    Variation(
        name="pods as Kubernetes knows them",
        change={
            "spec.workers": {
                "replicas": 2,
                "processes": 4,
                "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": 1}},
                "labels": {"team": "perf"},
                "annotations": {"example.com/owner": "me, myself & I"},
                "imagePullSecrets": [{"name": "registry"}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"secretKeyRef": SECRET}},
                    {"name": "C", "valueFrom": {"configMapKeyRef": SECRET}},
                ],
                "nodeSelector": {"kubernetes.io/arch": "amd64"},
                "tolerations": [{"key": "bench", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "topologySpreadConstraints": [{"maxSkew": 1}],
            }
        },
    ),
    Variation(
        name="scenarios",
        change={
            "spec.sweep": {
                "scenarios": [
                    {"name": "as it is", "set": {}},
                    {"name": "short", "set": {"dataset.prompts.isl": 64}},
                ]
            }
        },
    ),
    # The API server drops fields without a value, so an empty line means the default.
    Variation(name="field without a value", change={"spec.trials.count": None, "spec.cost": None}),
    Variation(name="no sweep", change={"spec.sweep": DELETE}),
    Variation(
        name="everything that may change later",
        change={
            "spec.suspend": True,
            "spec.cancel": True,
            "spec.activeDeadlineSeconds": 60,
            "spec.ttlSecondsAfterFinished": 0,
        },
    ),
)
"""Odd manifests that the API server and the operator accept; the accept side of every rule."""
