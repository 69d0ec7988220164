"""The allow-list: what the operator may be sent to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.net.allowlist import AllowList, AllowListError
from tare.net.origin import BadUrlError


def allows(entries: str, url: str) -> bool:
    return AllowList.parse(entries).allows(url)


@pytest.mark.parametrize("text", ["", " ", ",", " , \n"])
def test_an_empty_list_allows_nothing(text: str) -> None:
    assert not AllowList.parse(text).allows("http://qwen:8000")


@pytest.mark.parametrize(
    ("entries", "url"),
    [
        ("qwen", "http://qwen:8000/v1"),
        ("qwen", "https://QWEN"),
        ("qwen.", "http://qwen:8000"),
        ("http://qwen:8000", "http://qwen:8000"),
        ("qwen:8000-8100", "http://qwen:8100"),
        ("a, b\nc", "http://c"),
        ("*.example.com", "https://gpu.lab.example.com"),
        ("10.0.0.0/8", "http://10.1.2.3:8000"),
        ("10.1.2.3", "http://10.1.2.3"),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]:8000"),
        ("[fd00::/8]:8000", "http://[fd12::1]:8000"),
        ("[::1]", "http://[::1]"),
        ("*", "http://169.254.169.254"),
        ("*:443", "https://anything"),
    ],
)
def test_an_entry_allows(entries: str, url: str) -> None:
    assert allows(entries, url)


@pytest.mark.parametrize(
    ("entries", "url"),
    [
        ("qwen", "http://qwen.evil.com"),
        ("https://qwen", "http://qwen"),
        ("qwen:8000", "http://qwen:8001"),
        ("qwen:8000-8100", "http://qwen:8101"),
        ("*.example.com", "http://example.com"),
        ("*.example.com", "http://evilexample.com"),
        ("*.example.com", "http://a.example.com.evil.org"),
        ("10.0.0.0/8", "http://11.0.0.1"),
        ("10.0.0.0/8", "http://ten.example.com"),
        ("10.0.0.0/8", "http://[fd00::1]"),
        ("0.0.0.0/0", "http://2130706433"),
        ("*:443", "https://anything:444"),
    ],
)
def test_an_entry_does_not_allow(entries: str, url: str) -> None:
    assert not allows(entries, url)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://qwen",
        "http://",
        "qwen:0",
        "qwen:99999",
        "qwen:9-8",
        "10.0.0.0/33",
        "10.0.0.1/8",
        "fd00::1",
        "a/b",
        "*.*",
        "http://user@qwen",
        "-qwen",
        "[qwen]",
    ],
)
def test_an_entry_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(AllowListError, match=r"\w"):
        AllowList.parse(f"good, {text}")


def test_the_message_of_a_bad_entry_holds_it() -> None:
    with pytest.raises(AllowListError, match="'a/b'"):
        AllowList.parse("a/b")


def test_a_text_that_is_no_url_is_an_error_and_not_a_no() -> None:
    with pytest.raises(BadUrlError):
        AllowList.parse("*").allows("qwen:8000")


@pytest.mark.parametrize(
    ("entries", "port", "allowed"),
    [
        ("qwen.models.svc", 8000, True),
        ("*.models.svc", "http", True),
        ("qwen.models.svc:8000", 8000, True),
        ("qwen.models.svc:8000", 8001, False),
        ("qwen.models.svc:8000", "http", False),
        ("*.svc", "http", True),
        ("*.other.svc", 8000, False),
        ("10.0.0.0/8", 8000, False),
    ],
)
def test_a_service_of_another_namespace_is_allowed_by_its_name(
    entries: str, port: int | str, *, allowed: bool
) -> None:
    assert AllowList.parse(entries).allows_service("qwen", "models", port) is allowed


@given(st.ip_addresses())
def test_an_address_is_allowed_by_itself_and_by_everything(address: object) -> None:
    host = f"[{address}]" if ":" in str(address) else str(address)

    assert allows(host, f"http://{host}:8000")
    assert AllowList.everything().allows(f"http://{host}:8000")
