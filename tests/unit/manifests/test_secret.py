"""The run's token: computed again at any time, and in one place of the Secret only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from support.golden import assert_golden
from support.manifest_builder import OWNER, job_of
from support.strict_kubernetes import assert_valid
from tare.manifests.secret import TOKEN_KEY, build_token_secret, run_token, token_secret_name

KEY = b"0123456789abcdef"
GOLDEN = Path(__file__).parent / "golden"


def test_the_secret_is_the_one_that_was_reviewed() -> None:
    secret = build_token_secret(OWNER, "t0k3n")
    assert_golden(GOLDEN / "token-secret.yaml", secret)
    assert_valid(secret)


def test_a_token_is_the_runs_uid_and_its_hmac() -> None:
    """RFC 4231, test case 2: key "Jefe", data "what do ya want for nothing?"."""
    digest = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    uid = "what do ya want for nothing?"
    assert run_token(b"Jefe", uid) == f"{uid}.{digest}"


def test_the_token_is_in_no_name_and_no_label() -> None:
    token = run_token(KEY, OWNER.uid)
    secret = build_token_secret(OWNER, token)
    assert secret["stringData"] == {TOKEN_KEY: token}
    assert token not in json.dumps(secret["metadata"])
    assert token not in json.dumps(job_of())


def test_a_run_that_is_created_again_has_a_secret_of_its_own() -> None:
    again = replace(OWNER, uid="ffffffff-9dad-11d1-80b4-00c04fd430c8")
    assert token_secret_name(again) != token_secret_name(OWNER)


def test_the_job_reads_the_secret_that_is_created() -> None:
    [container] = job_of()["spec"]["template"]["spec"]["containers"]
    [entry] = [entry for entry in container["env"] if entry["name"] == "TARE_TOKEN"]
    reference = entry["valueFrom"]["secretKeyRef"]
    assert reference == {"name": token_secret_name(OWNER), "key": TOKEN_KEY}
