"""Settings from the environment: defaults, and one sentence for each value that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tare.runtime.settings import Settings, SettingsError, from_environment

if TYPE_CHECKING:
    from pathlib import Path

INBOX = {"TARE_INBOX_URL": "http://tare.tare.svc:8080/"}


def settings(**variables: str) -> Settings:
    return from_environment({**INBOX, **variables})


def refusal(**variables: str) -> str:
    with pytest.raises(SettingsError) as refused:
        settings(**variables)
    return str(refused.value)


def test_only_the_inbox_must_be_given() -> None:
    found = settings()
    assert (found.host, found.port) == ("0.0.0.0", 8080)
    assert found.worker.inbox_url == "http://tare.tare.svc:8080"
    assert found.worker.image == "localhost/tare-worker:dev"
    assert found.worker.pull_policy == "IfNotPresent"
    assert found.namespaces == ()
    assert not found.allowed_targets.entries


def test_an_inbox_that_is_missing_is_named_with_its_meaning() -> None:
    for environment in ({}, {"TARE_INBOX_URL": ""}):
        with pytest.raises(SettingsError, match="TARE_INBOX_URL is not set: the URL by which"):
            from_environment(environment)


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::]:8080", ("::", 8080)),
        ("tare.local:65535", ("tare.local", 65535)),
    ],
)
def test_where_to_listen_is_an_address_and_a_port(text: str, listen: tuple[str, int]) -> None:
    found = settings(TARE_OPERATOR_LISTEN=text)
    assert (found.host, found.port) == listen


@pytest.mark.parametrize("text", ["", "8080", ":8080", "host:", "host:http", "host:65536", "h:-1"])
def test_anything_else_is_refused_with_the_text(text: str) -> None:
    expected = f"TARE_OPERATOR_LISTEN: {text!r}; expected ADDRESS:PORT"
    assert refusal(TARE_OPERATOR_LISTEN=text) == expected


def test_namespaces_are_a_list_with_blanks_wherever_people_put_them() -> None:
    assert settings(TARE_NAMESPACES=" a, b ,,c ").namespaces == ("a", "b", "c")
    assert settings(TARE_NAMESPACES="").namespaces == ()


def test_targets_are_allowed_by_the_list_alone() -> None:
    found = settings(TARE_ALLOWED_TARGETS="http://10.0.0.0/8:8000-8100 qwen.models.svc")
    assert found.allowed_targets.allows("http://10.1.2.3:8000")
    assert not found.allowed_targets.allows("http://10.1.2.3:9000")


def test_a_bad_entry_of_the_list_is_named() -> None:
    assert refusal(TARE_ALLOWED_TARGETS="http://").startswith("TARE_ALLOWED_TARGETS: 'http://'")


def test_the_image_and_its_policy_are_the_charts() -> None:
    found = settings(TARE_WORKER_IMAGE="r/w:1", TARE_WORKER_PULL_POLICY="Always")
    assert (found.worker.image, found.worker.pull_policy) == ("r/w:1", "Always")


def test_the_key_is_the_files_content(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"0123456789abcdef")
    assert settings(TARE_OPERATOR_KEY_FILE=str(path)).operator_key == b"0123456789abcdef"


def test_without_a_file_every_process_has_a_key_of_its_own() -> None:
    assert settings().operator_key != settings().operator_key
    assert len(settings().operator_key) == 32


def test_a_key_that_is_not_there_or_too_short_is_refused_without_showing_it(
    tmp_path: Path,
) -> None:
    missing = tmp_path / "missing"
    expected = f"TARE_OPERATOR_KEY_FILE: {missing}: No such file or directory"
    assert refusal(TARE_OPERATOR_KEY_FILE=str(missing)) == expected
    short = tmp_path / "short"
    short.write_bytes(b"s3cret")
    message = refusal(TARE_OPERATOR_KEY_FILE=str(short))
    assert message == f"TARE_OPERATOR_KEY_FILE: {short}: 6 bytes; 16 or more needed"


def test_the_key_is_not_in_the_settings_text() -> None:
    found = settings()
    assert "operator_key" not in repr(found)
