"""Custom resources: schema, defaults, unknown fields, CEL, the status subresource."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.clusters import collection, eventually

if TYPE_CHECKING:
    from support.clusters import Api

DEFINITIONS = collection("apiextensions.k8s.io", "customresourcedefinitions", "")
OURS = Path(__file__).parents[2] / "crds" / "benchmarkruns.tare.dev.yaml"
UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was "
    "invalid; correct the existing errors to complete validation"
)


def probe(called: str = "p", /, **spec: Any) -> Any:
    return {
        "apiVersion": "conformance.tare.dev/v1",
        "kind": "Probe",
        "metadata": {"name": called},
        "spec": {"size": 1, **spec},
    }


FAULTS = [
    (
        {"size": "x"},
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
    ),
    (
        {"size": 1.5},
        'spec.size: Invalid value: "number": spec.size in body must be of type integer: "number"',
    ),
    ({"size": None}, "spec.size: Required value"),
    (
        {"size": 0},
        "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
    ),
    (
        {"size": 101},
        "spec.size: Invalid value: 101: spec.size in body should be less than or equal to 100",
    ),
    (
        {"colour": "blue"},
        'spec.colour: Unsupported value: "blue": supported values: "red", "green"',
    ),
    (
        {"name": "a"},
        'spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long',
    ),
    (
        {"name": "A1"},
        "spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'",
    ),
    ({"name": "abcdefghi"}, "spec.name: Too long: may not be more than 8 bytes"),
    ({"tags": ["a", "b", "c"]}, "spec.tags: Too many: 3: must have at most 2 items"),
    ({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
    (
        {"labels": {"a": "1", "b": "2", "c": "3"}},
        "spec.labels: Too many: 3: must have at most 2 items",
    ),
    (
        {"parts": [{"name": "a"}, {"name": "a"}]},
        'spec.parts[1]: Duplicate value: {"name":"a"}',
    ),
    ({"parts": [{"weight": 3}]}, "spec.parts[0].name: Required value"),
    (
        {"port": 0.5},
        (
            'spec.port: Invalid value: "number": spec.port in body must be of type integer,string: '
            '"number"'
        ),
    ),
    (
        {"service": "s", "url": "http://a"},
        'spec: Invalid value: "object": service and url exclude each other',
    ),
    ({"url": "::"}, 'spec.url: Invalid value: "string": must be a URL'),
]


@pytest.mark.parametrize(("spec", "fault"), FAULTS, ids=[fault[:40] for _, fault in FAULTS])
async def test_a_fault_is_refused_in_the_real_servers_words(
    api: Api, probes: str, spec: Any, fault: str
) -> None:
    answer = await api.create(probes, probe(**spec))

    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert answer.message.startswith('Probe.conformance.tare.dev "p" is invalid: ')
    assert fault in answer.message
    details = answer.body["details"]
    assert (details["group"], details["kind"], details["name"]) == (
        "conformance.tare.dev",
        "Probe",
        "p",
    )
    assert any(f"{cause['field']}: {cause['message']}" == fault for cause in details["causes"])


async def test_all_faults_come_at_once_and_hide_the_rules(api: Api, probes: str) -> None:
    faulty = probe(size="x", colour="blue", service="s", url="http://a")

    answer = await api.create(probes, faulty)

    fields = [cause["field"] for cause in answer.body["details"]["causes"]]
    assert sorted(fields) == ["<nil>", "spec.colour", "spec.size"]
    assert UNCHECKED in answer.message


async def test_defaults_are_filled_in_to_the_depth(api: Api, probes: str) -> None:
    created = await api.must_create(probes, probe(parts=[{"name": "a"}]))

    assert created["spec"] == {
        "size": 1,
        "colour": "red",
        "cancel": False,
        "parts": [{"name": "a", "weight": 1}],
    }


async def test_null_is_kept_where_it_is_allowed_and_defaulted_elsewhere(
    api: Api, probes: str
) -> None:
    created = await api.must_create(probes, probe(nothing=None, colour=None))

    assert created["spec"]["nothing"] is None
    assert created["spec"]["colour"] == "red"


async def test_free_form_fields_are_kept_as_they_are(api: Api, probes: str) -> None:
    free = {"a": [1, {"b": None}], "c": "text"}

    created = await api.must_create(probes, probe(free=free, port="http"))

    assert created["spec"]["free"] == free
    assert created["spec"]["port"] == "http"


async def test_unknown_fields_are_refused_for_strict_clients(api: Api, probes: str) -> None:
    answer = await api.create(
        probes,
        probe(sise=1, parts=[{"name": "a", "wait": 3}]),
        fieldValidation="Strict",
    )

    assert answer.status == 400
    assert answer.message == (
        'Probe in version "v1" cannot be handled as a Probe: strict decoding error: '
        'unknown field "spec.parts[0].wait", unknown field "spec.sise"'
    )


async def test_a_patch_with_an_unknown_field_is_refused_for_strict_clients(
    api: Api, probes: str
) -> None:
    await api.must_create(probes, probe())

    answer = await api.patch(f"{probes}/p", {"spec": {"sise": 1}}, fieldValidation="Strict")

    assert answer.status == 422
    assert answer.message.endswith('strict decoding error: unknown field "spec.sise"')


async def test_unknown_fields_are_dropped_with_a_warning_for_lax_clients(
    api: Api, probes: str
) -> None:
    warned = await api.create(probes, probe("a", sise=1))
    ignored = await api.create(probes, probe("b", sise=1), fieldValidation="Ignore")

    assert (warned.status, ignored.status) == (201, 201)
    assert "sise" not in warned.body["spec"]
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.sise\\""'
    assert "Warning" not in ignored.headers


async def test_a_transition_rule_sees_the_old_value(api: Api, probes: str) -> None:
    await api.must_create(probes, probe(cancel=True))

    answer = await api.patch(f"{probes}/p", {"spec": {"cancel": False}})

    assert answer.status == 422
    assert 'spec.cancel: Invalid value: "boolean": cancel cannot be taken back' in answer.message


async def test_a_rule_at_the_root_reads_spec_and_status(api: Api, probes: str) -> None:
    await api.must_create(probes, probe(size=1))
    path = f"{probes}/p"
    assert (await api.patch(path, {"spec": {"size": 2}})).status == 200
    started = {"status": {"started": "2026-01-01T00:00:00Z"}}
    assert (await api.patch(f"{path}/status", started)).status == 200

    answer = await api.patch(path, {"spec": {"size": 3}})

    assert answer.status == 422
    assert (
        '<nil>: Invalid value: "object": spec.size is frozen once the probe has started'
        in answer.message
    )


async def test_an_old_fault_does_not_block_another_change(api: Api, probes: str) -> None:
    definition = yaml.safe_load(
        (Path(__file__).parent / "probes.conformance.tare.dev.yaml").read_text()
    )
    plural = f"ratchet{secrets.token_hex(3)}"
    name = f"{plural}.conformance.tare.dev"
    definition["metadata"]["name"] = name
    definition["spec"]["names"] = {
        "plural": plural,
        "singular": plural,
        "kind": plural.title(),
    }
    version = definition["spec"]["versions"][0]
    version.pop("additionalPrinterColumns")
    await api.create(DEFINITIONS, definition)
    path = probes.replace("probes", plural)
    await api.until(path, lambda _: True)
    old = {**probe(size=90), "kind": plural.title()}
    await api.must_create(path, old)
    properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["size"]["maximum"] = 50
    await api.patch(f"{DEFINITIONS}/{name}", {"spec": definition["spec"]})
    await api.until(path, lambda _: True)

    async def narrower() -> bool:
        answer = await api.create(path, {**old, "metadata": {"name": "q"}}, dryRun="All")
        return answer.status == 422

    await eventually(narrower)
    kept = await api.patch(f"{path}/p", {"spec": {"colour": "green"}})
    moved = await api.patch(f"{path}/p", {"spec": {"size": 91}})
    await api.delete(f"{DEFINITIONS}/{name}")

    assert kept.status == 200, kept.body
    assert moved.status == 422


async def test_status_and_spec_are_written_apart(api: Api, probes: str) -> None:
    created = await api.must_create(probes, {**probe(), "status": {"phase": "Made up"}})
    both = {"spec": {"size": 9}, "status": {"phase": "Running"}}

    main = await api.patch(f"{probes}/p", {"status": {"phase": "Running"}})
    status = await api.patch(f"{probes}/p/status", both)

    assert "status" not in created
    assert "status" not in main.body
    assert status.body["status"] == {"phase": "Running"}
    assert status.body["spec"]["size"] == 1


async def test_the_generation_counts_changes_of_the_spec_only(api: Api, probes: str) -> None:
    path = f"{probes}/p"
    generations = [(await api.must_create(probes, probe()))["metadata"]["generation"]]
    for target, patch in (
        (path, {"metadata": {"labels": {"a": "b"}}}),
        (f"{path}/status", {"status": {"phase": "Running"}}),
        (path, {"spec": {"size": 2}}),
        (path, {"spec": {"size": 2}}),
    ):
        answer = await api.patch(target, patch)
        generations.append(answer.body["metadata"]["generation"])

    assert generations == [1, 1, 1, 2, 2]


async def test_an_update_of_a_custom_resource_needs_a_resource_version(
    api: Api, probes: str
) -> None:
    await api.must_create(probes, probe())

    answer = await api.request("PUT", f"{probes}/p", probe(size=2))

    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified" in answer.message


async def test_a_definition_is_served_when_applied_and_takes_its_objects_with_it(
    api: Api, namespace: str
) -> None:
    plural = f"passing{secrets.token_hex(3)}"
    name = f"{plural}.conformance.tare.dev"
    definition = {
        "metadata": {"name": name},
        "spec": {
            "group": "conformance.tare.dev",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": plural.title()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    await api.must_create(DEFINITIONS, definition)
    path = collection("conformance.tare.dev", plural, namespace)
    await api.until(
        f"{DEFINITIONS}/{name}",
        lambda found: any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in found["status"]["conditions"] or ()
        ),
    )
    await api.until(path, lambda _: True)
    body = {
        "apiVersion": "conformance.tare.dev/v1",
        "kind": plural.title(),
        "metadata": {"name": "x"},
    }
    await api.must_create(path, body)

    await api.delete(f"{DEFINITIONS}/{name}")

    await api.until_gone(f"{DEFINITIONS}/{name}")
    assert (await api.get(path)).status == 404


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (
            {"type": "object", "properties": {"a": {}}},
            "openAPIV3Schema.properties[a].type: Required value: must not be empty",
        ),
        (
            {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "x-kubernetes-validations": [{"rule": "self +"}]}
                },
            },
            "compilation failed",
        ),
    ],
)
async def test_a_definition_with_a_faulty_schema_is_refused(
    api: Api, schema: Any, fault: str
) -> None:
    definition = {
        "metadata": {"name": "faulty.conformance.tare.dev"},
        "spec": {
            "group": "conformance.tare.dev",
            "scope": "Namespaced",
            "names": {"plural": "faulty", "singular": "fault", "kind": "Fault"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }

    answer = await api.create(DEFINITIONS, definition)

    assert answer.status == 422
    assert fault in answer.message


async def test_our_own_definition_is_accepted(api: Api) -> None:
    definition = yaml.safe_load(OURS.read_text())

    answer = await api.create(DEFINITIONS, definition, dryRun="All", fieldValidation="Strict")

    assert answer.status in {201, 409}, answer.body
