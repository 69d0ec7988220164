"""Rows about the control hooks."""

from __future__ import annotations

from support.manifest_rows.row import DELETE, ENDPOINT, Refuser, row

__all__ = ["HOOKS"]

_SCHEMA, _OPERATOR = Refuser.SCHEMA, Refuser.OPERATOR

HOOKS = (
    row(
        "reset that is a text",
        {f"{ENDPOINT}.resetKvCache": "yes"},
        _SCHEMA,
        f"{ENDPOINT}.resetKvCache",
        "'yes'",
        "true, false or an object",
    ),
    row(
        "reset at another host",
        {f"{ENDPOINT}.resetKvCache": {"path": "http://other/reset"}},
        _SCHEMA,
        f"{ENDPOINT}.resetKvCache.path",
        "'http://other/reset'",
        "start it with one '/'",
    ),
    row(
        "reset path with two slashes",
        {f"{ENDPOINT}.resetKvCache": {"path": "//other/reset"}},
        _SCHEMA,
        f"{ENDPOINT}.resetKvCache.path",
        "start it with one '/'",
    ),
    row(
        "profiler path that holds a URL",
        {f"{ENDPOINT}.serverProfiler": {"startPath": "/x?to=http://other"}},
        _OPERATOR,
        f"{ENDPOINT}.serverProfiler.startPath",
        "leave out '://'",
    ),
    row(
        "profiler with a negative time-out",
        {f"{ENDPOINT}.serverProfiler": {"stopTimeoutSeconds": -1}},
        _SCHEMA,
        f"{ENDPOINT}.serverProfiler.stopTimeoutSeconds",
        "-1 is out of range",
    ),
    row(
        "hook target that names nothing",
        {f"{ENDPOINT}.resetKvCache": {"target": {}}},
        _OPERATOR,
        f"{ENDPOINT}.resetKvCache.target",
        "by one of service, selector and urls",
    ),
    row(
        "hook target that names two",
        {
            f"{ENDPOINT}.serverProfiler": {
                "target": {"service": {"name": "engines"}, "urls": ["http://10.0.0.9:8000"]}
            }
        },
        _OPERATOR,
        f"{ENDPOINT}.serverProfiler.target",
        "by one of service, selector and urls",
    ),
    row(
        "hook target of URLs with ports",
        {
            f"{ENDPOINT}.resetKvCache": {
                "target": {"urls": ["http://10.0.0.9:8000"], "ports": [8001]}
            }
        },
        _OPERATOR,
        f"{ENDPOINT}.resetKvCache.target.ports",
        "urls name their ports themselves",
    ),
    row(
        "hook target of a selector without ports",
        {f"{ENDPOINT}.resetKvCache": {"target": {"selector": {"app": "engine"}}}},
        _OPERATOR,
        f"{ENDPOINT}.resetKvCache.target.ports",
        "add ports",
    ),
    row(
        "hook target with a port twice",
        {f"{ENDPOINT}.resetKvCache": {"target": {"ports": [8001, 8001]}}},
        _OPERATOR,
        f"{ENDPOINT}.resetKvCache.target.ports",
        "every port stands once",
    ),
    row(
        "ports of a URL's pods",
        {
            f"{ENDPOINT}.service": DELETE,
            f"{ENDPOINT}.url": "http://10.0.0.9:8000",
            f"{ENDPOINT}.resetKvCache": {"target": {"ports": [8001]}},
        },
        _OPERATOR,
        f"{ENDPOINT}.resetKvCache",
        "the endpoint is given by URL",
    ),
    row(
        "reset of SGLang's external cache",
        {f"{ENDPOINT}.server": "sglang", f"{ENDPOINT}.resetKvCache": {"resetExternal": True}},
        _OPERATOR,
        f"{ENDPOINT}.resetKvCache",
        "resetExternal is a switch of vLLM",
    ),
    row(
        "steps of a profile on SGLang",
        {f"{ENDPOINT}.server": "sglang", f"{ENDPOINT}.serverProfiler": {"maxIterations": 5}},
        _OPERATOR,
        f"{ENDPOINT}.serverProfiler",
        "maxIterations is a field of vLLM",
        "startBody",
    ),
    row(
        "reset of TensorRT-LLM",
        {f"{ENDPOINT}.server": "trtllm"},
        _OPERATOR,
        f"{ENDPOINT}.resetKvCache",
        "TensorRT-LLM has no reset route",
        "resetKvCache: false",
    ),
    row(
        "reset of Dynamo",
        {
            f"{ENDPOINT}.server": "dynamo",
            f"{ENDPOINT}.resetKvCache": {"path": "/clear_kv_blocks"},
        },
        _OPERATOR,
        f"{ENDPOINT}.resetKvCache",
        "Dynamo has no reset route from 1.6 on",
    ),
)
