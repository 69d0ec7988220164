"""Every manifest of the table of invalid ones, against an API server and the operator.

What the API server can see is refused at `kubectl create`, and by `--dry-run=server` with the same
words; the rest by the operator, before anything was created for the run. The whole table is sent at
once; each row is a test of what became of it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from support.bed import QUICK, Bed, condition, install_crd, manifest, told
from support.invalid_manifests import INVALID, Refuser, Row
from support.kubectl import Kubectl, Said
from tare.kube.port import CONFIG_MAP, JOB, RUN, SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from support.bed import OperatorProcess
    from tare.kube.port import Document

TABLE = dict(enumerate(INVALID))
_REFUSAL = re.compile(r'^.*error when creating "[^"]*/(\d+)\.json": (.*)$', re.MULTILINE)
_ALLOWED = re.compile(
    r"Required value|unknown field|supported values: |in body should |in body must |"
    r"must be no more than|may not be more than|Duplicate value|"
    r"must validate one and only one schema|a lowercase RFC 1123"
)
"""Words of the API server that say what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What became of the table, by the number of the row."""

    dry_run: Mapping[int, str]
    """What the API server said to a dry run of a row, where it refused."""
    create: Mapping[int, str]
    """What it said to a create."""
    statuses: Mapping[int, Mapping[str, Any]]
    """Of the runs that it took, at their end."""
    children: list[str]
    """Jobs, Secrets and ConfigMaps of these runs."""


async def ask(kubeconfig: Path, operator: OperatorProcess, folder: Path) -> Answers:
    """Send the whole table and wait for every answer."""
    await install_crd(kubeconfig)
    async with Bed.open(kubeconfig, operator) as bed:
        namespace = await bed.namespace()
        write_table(folder, namespace)
        kubectl = Kubectl(kubeconfig, namespace)
        dry_run = kubectl.attempt("create", "--dry-run=server", "--filename", str(folder))
        create = kubectl.attempt("create", "--filename", str(folder))
        runs = await bed.cluster.list(RUN, namespace)
        names = [run["metadata"]["name"] for run in runs]
        statuses = await asyncio.gather(*(bed.finished(namespace, name) for name in names))
        children = [await bed.cluster.list(kind, namespace) for kind in (JOB, SECRET, CONFIG_MAP)]
        return Answers(
            dry_run=refusals(dry_run),
            create=refusals(create),
            statuses={number_of(n): status for n, status in zip(names, statuses, strict=True)},
            children=[d["metadata"]["name"] for found in children for d in found if owned(d)],
        )


def write_table(folder: Path, namespace: str) -> None:
    """Write each row to a file of its own; only rows about the name keep theirs."""
    for number, row in TABLE.items():
        document = row.manifest
        document["metadata"]["namespace"] = namespace
        if row.path != "metadata.name":
            document["metadata"]["name"] = f"row-{number}"
        (folder / f"{number}.json").write_text(json.dumps(document))


def refusals(said: Said) -> dict[int, str]:
    return {int(number): message for number, message in _REFUSAL.findall(said.err)}


def number_of(name: str) -> int:
    return int(name.removeprefix("row-"))


def owned(document: Document) -> bool:
    return bool(document["metadata"].get("ownerReferences"))


def rows(*refusers: Refuser) -> Iterable[Any]:
    return [
        pytest.param(n, row, id=row.name) for n, row in TABLE.items() if row.refused_by in refusers
    ]


@pytest.fixture(scope="module")
def answers(
    kubeconfig: Path, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    return asyncio.run(ask(kubeconfig, operator, tmp_path_factory.mktemp("table")))


@pytest.mark.parametrize(("number", "row"), rows(Refuser.SCHEMA))
def test_the_schema_refuses_with_the_path_and_what_is_allowed(
    answers: Answers, number: int, row: Row
) -> None:
    message = answers.create[number]
    assert row.path in message
    assert _ALLOWED.search(message), message
    assert answers.dry_run[number] == message


@pytest.mark.parametrize(("number", "row"), rows(Refuser.CEL))
def test_a_rule_of_the_crd_refuses_with_the_operators_own_words(
    answers: Answers, number: int, row: Row
) -> None:
    message = answers.create[number]
    assert row.path in message
    assert [part for part in row.fragments if part not in message] == []
    assert answers.dry_run[number] == message


@pytest.mark.parametrize(("number", "row"), rows(Refuser.OPERATOR))
def test_the_operator_refuses_what_the_api_server_cannot_see(
    answers: Answers, number: int, row: Row
) -> None:
    status = answers.statuses[number]
    accepted = told(status, "Accepted")
    assert status["phase"] == "Failed"
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert [part for part in (row.path, *row.fragments) if part not in accepted["message"]] == []
    assert condition(status, "Failed") == condition(status, "Finished") == "True"


def test_nothing_is_created_for_a_run_that_is_refused(answers: Answers) -> None:
    by_operator = {n for n, row in TABLE.items() if row.refused_by is Refuser.OPERATOR}
    assert answers.statuses.keys() == by_operator
    assert answers.children == []


async def test_after_all_of_them_the_operator_drives_a_good_run(answers: Answers, bed: Bed) -> None:
    assert answers.statuses
    assert bed.operator.alive
    namespace = await bed.namespace()
    await bed.servers(namespace, *QUICK, replicas=1)
    await bed.submit(namespace, manifest(workers={"replicas": 1}))
    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded", told(status, "Finished")
