"""Rows about the dataset, the phases, the sweep and the trials."""

from __future__ import annotations

from support.manifest_rows.row import DELETE, PHASE, Refuser, row

__all__ = ["DATASET", "LOAD", "SWEEP"]

_SCHEMA, _CEL, _OPERATOR = Refuser.SCHEMA, Refuser.CEL, Refuser.OPERATOR
_HUNDREDS = list(range(1, 31))

DATASET = (
    row(
        "prompts of no tokens",
        {"spec.dataset.prompts.isl": 0},
        _SCHEMA,
        "spec.dataset.prompts.isl",
        "0 is out of range",
        "from 1",
    ),
    row(
        "half a token",
        {"spec.dataset.prompts.isl": 0.5},
        _SCHEMA,
        "spec.dataset.prompts.isl",
        "0.5 is no whole number",
    ),
    row(
        "lengths that are a text",
        {"spec.dataset.prompts.osl": "128"},
        _SCHEMA,
        "spec.dataset.prompts.osl",
        "'128'",
        "a number of tokens",
    ),
    row(
        "two distributions in one",
        {"spec.dataset.prompts.osl": {"mean": 5, "max": 9}},
        _OPERATOR,
        "spec.dataset.prompts.osl",
        "{mean, stddev}, {min, max}",
    ),
    row(
        "smallest above largest",
        {"spec.dataset.prompts.isl": {"min": 9, "max": 5}},
        _OPERATOR,
        "spec.dataset.prompts.isl.min",
        "larger than max",
    ),
    row(
        "too few weights",
        {"spec.dataset.prompts.isl": {"values": [1, 2], "weights": [1]}},
        _OPERATOR,
        "spec.dataset.prompts.isl.weights",
        "one weight for each",
    ),
)

LOAD = (
    row("no phases", {"spec.phases": []}, _SCHEMA, "spec.phases", "at least 1"),
    row(
        "nothing to measure",
        {f"{PHASE}.kind": "warmup"},
        _CEL,
        "spec.phases",
        "kind: profiling",
    ),
    row(
        "seamless phase that nothing follows",
        {f"{PHASE}.seamless": True},
        _CEL,
        "spec.phases",
        "the last phase is seamless",
    ),
    row(
        "seamless phase before a reset",
        {
            "spec.phases[0].seamless": True,
            "spec.endpoint.resetKvCache": {"at": "BeforeProfiling"},
        },
        _OPERATOR,
        "spec.phases",
        "leaves its last answers in flight",
        "at: CellStart",
    ),
    row(
        "two phases of one name",
        {f"{PHASE}.name": "warmup", "spec.sweep": DELETE},
        _CEL,
        "spec.phases",
        "same name",
    ),
    row(
        "phase without an end",
        {f"{PHASE}.durationSeconds": DELETE},
        _CEL,
        PHASE,
        "requests, durationSeconds",
    ),
    row(
        "closed loop without concurrency",
        {"spec.phases[0].concurrency": DELETE},
        _CEL,
        "spec.phases[0].concurrency",
        "needs concurrency",
    ),
    row("open loop without rate", {f"{PHASE}.rate": DELETE}, _CEL, f"{PHASE}.rate", "needs rate"),
    row(
        "concurrency of an open loop",
        {f"{PHASE}.concurrency": 4},
        _CEL,
        f"{PHASE}.concurrency",
        "maxConcurrency",
    ),
    row(
        "rate of a closed loop",
        {"spec.phases[0].rate": 4},
        _CEL,
        "spec.phases[0].rate",
        "closed loop",
    ),
    row(
        "bound of a closed loop",
        {"spec.phases[0].maxConcurrency": 4},
        _CEL,
        "spec.phases[0].maxConcurrency",
        "set concurrency",
    ),
    row(
        "concurrency of 0",
        {"spec.phases[0].concurrency": 0},
        _SCHEMA,
        "spec.phases[0].concurrency",
        "0 is out of range",
        "from 1",
    ),
    row("rate of 0", {f"{PHASE}.rate": 0}, _SCHEMA, f"{PHASE}.rate", "more than 0"),
    row(
        "negative number of requests",
        {"spec.phases[0].requests": -5},
        _SCHEMA,
        "spec.phases[0].requests",
        "-5 is out of range",
    ),
    row(
        "gamma without a shape",
        {f"{PHASE}.type": "gamma"},
        _CEL,
        f"{PHASE}.smoothness",
        "type: gamma, which needs it",
    ),
    row(
        "shape of constant gaps",
        {f"{PHASE}.smoothness": 0.5},
        _CEL,
        f"{PHASE}.smoothness",
        "belongs to type: gamma",
    ),
    row(
        "exponential ramp from nothing",
        {f"{PHASE}.ramp": {"type": "exponential", "seconds": 5}},
        _CEL,
        f"{PHASE}.ramp.from",
        "set from above 0",
    ),
    row(
        "ramp of a rate that goes down",
        {f"{PHASE}.ramp": {"seconds": 5, "from": 10.5}},
        _CEL,
        f"{PHASE}.ramp",
        "set from below",
    ),
    row(
        "ramp of a concurrency that goes nowhere",
        {"spec.phases[0].ramp": {"seconds": 5, "from": 2.0}},
        _CEL,
        "spec.phases[0].ramp",
        "set from below",
    ),
    row(
        "ramp without an end",
        {f"{PHASE}.ramp": {"from": 1.5}},
        _SCHEMA,
        f"{PHASE}.ramp.seconds",
        "is missing",
    ),
    row(
        "share to cancel without a delay",
        {f"{PHASE}.cancelShare": "10%"},
        _OPERATOR,
        f"{PHASE}.cancelAfterSeconds",
        "go together",
    ),
    row(
        "share to cancel of more than all",
        {f"{PHASE}.cancelShare": "110%", f"{PHASE}.cancelAfterSeconds": 1},
        _OPERATOR,
        f"{PHASE}.cancelShare",
        "'110%'",
        "0 to 1",
    ),
    row(
        "misspelt type of phase",
        {f"{PHASE}.type": "consant"},
        _SCHEMA,
        f"{PHASE}.type",
        "did you mean constant?",
    ),
)

SWEEP = (
    row(
        "two forms of a sweep",
        {"spec.sweep.zip": {"dataset.seed": [1, 2]}},
        _SCHEMA,
        "spec.sweep",
        "exactly one of grid, zip, scenarios",
    ),
    row("no form of a sweep", {"spec.sweep": {}}, _SCHEMA, "spec.sweep", "exactly one of grid"),
    row(
        "axis that is no list",
        {"spec.sweep": {"grid": {"dataset.seed": 1}}},
        _SCHEMA,
        "spec.sweep.grid.dataset.seed",
        "no list",
    ),
    row(
        "900 cells",
        {"spec.sweep": {"grid": {"dataset.seed": _HUNDREDS, "dataset.entries": _HUNDREDS}}},
        _OPERATOR,
        "spec.sweep.grid",
        "900",
        "500",
    ),
    row(
        "sweep of a phase that is not there",
        {"spec.sweep": {"grid": {"phases.profilng.rate": [1, 2]}}},
        _OPERATOR,
        "spec.sweep.grid.phases.profilng.rate",
        "did you mean profiling?",
    ),
    row(
        "sweep of the target",
        {"spec.sweep": {"grid": {"endpoint.url": ["http://a", "http://b"]}}},
        _OPERATOR,
        "spec.sweep.grid.endpoint.url",
        "may not be swept",
    ),
    row(
        "swept value that its field refuses",
        {"spec.sweep": {"grid": {"phases.profiling.rate": [2, -4]}}},
        _OPERATOR,
        "spec.sweep.grid.phases.profiling.rate",
        "-4 is out of range",
    ),
    row(
        "swept field that does not exist",
        {"spec.sweep": {"zip": {"dataset.prompts.ils": [2, 4]}}},
        _OPERATOR,
        "spec.sweep.zip.dataset.prompts.ils",
        "did you mean isl?",
    ),
    row(
        "swept value that is not built",
        {"spec.sweep": {"grid": {"phases.profiling.type": ["constant", "fixedSchedule"]}}},
        _OPERATOR,
        "spec.sweep.grid.phases.profiling.type",
        "not built",
    ),
    row(
        "scenario that does not fit together",
        {
            "spec.sweep": {
                "scenarios": [{"name": "c", "set": {"phases.profiling.type": "concurrency"}}]
            }
        },
        _OPERATOR,
        "spec.sweep",
        "cell 0 (c)",
        "needs concurrency",
    ),
    row(
        "21 trials",
        {"spec.trials.count": 21},
        _SCHEMA,
        "spec.trials.count",
        "21 is out of range",
        "20",
    ),
)
