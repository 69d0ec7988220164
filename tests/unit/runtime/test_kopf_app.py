"""How Kopf is set up: the one thing that no test of behaviour would miss for a long time."""

from __future__ import annotations

import kopf
import pytest

from tare.runtime.kopf_app import _configure
from tare.runtime.settings import SettingsError, from_environment

LONGEST = from_environment({"TARE_INBOX_URL": "http://a"}).watch_timeout


def configured(watch_timeout: int) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    _configure(settings, watch_timeout)
    return settings


def test_b107_every_wait_for_the_api_server_ends_within_ten_minutes() -> None:
    settings = configured(LONGEST)
    watching, networking = settings.watching, settings.networking
    for seconds in (
        watching.server_timeout,
        watching.client_timeout,
        watching.connect_timeout,
        watching.inactivity_timeout,
        networking.request_timeout,
        networking.connect_timeout,
    ):
        assert seconds is not None
        assert 0 < seconds <= 600


def test_a_silent_watch_is_given_up_soon_after_a_bookmark_is_missing() -> None:
    assert configured(LONGEST).watching.inactivity_timeout == 70


@pytest.mark.parametrize(("watch", "silence"), [(2, 4), (10, 20), (60, 70)])
def test_shorter_watches_are_given_up_sooner(watch: int, silence: int) -> None:
    watching = configured(watch).watching
    assert watching.server_timeout == watch
    assert watching.inactivity_timeout == watching.client_timeout == silence


@pytest.mark.parametrize("text", ["0", "2s", "-1", "591", ""])
def test_a_watch_timeout_that_cannot_be_used_is_named(text: str) -> None:
    environment = {"TARE_INBOX_URL": "http://a", "TARE_WATCH_TIMEOUT_SECONDS": text}
    with pytest.raises(SettingsError, match=f"TARE_WATCH_TIMEOUT_SECONDS: '{text}'; expected"):
        from_environment(environment)


def test_the_watch_timeout_is_read_from_the_environment() -> None:
    environment = {"TARE_INBOX_URL": "http://a", "TARE_WATCH_TIMEOUT_SECONDS": "30"}
    assert from_environment(environment).watch_timeout == 30


def test_the_api_server_sends_no_pods_and_jobs_of_others() -> None:
    selectors = configured(LONGEST).watching.label_selectors
    for key in (("batch", "v1", "jobs"), ("", "v1", "pods")):
        assert selectors[key] == "app.kubernetes.io/managed-by=tare"


def test_kopf_keeps_no_copies_of_objects_and_leaves_no_traces_on_them() -> None:
    storage = configured(LONGEST).persistence.diffbase_storage
    body = kopf.Body({"metadata": {"name": "p"}, "spec": {"a": 1}})
    patch = kopf.Patch()
    essence = storage.build(body=body)
    storage.store(body=body, patch=patch, essence=essence)
    assert (essence, dict(patch), storage.fetch(body=body)) == ({}, {}, None)
