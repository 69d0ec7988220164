from __future__ import annotations

import pytest

from tare.net.origin import BadUrlError, Origin, parse_base_url, parse_origin


def test_b80_one_server_has_one_origin_however_it_is_written() -> None:
    urls = ("http://H:80/v1", "http://h/v1/", "http://h:80/v1")
    assert {str(parse_origin(url)) for url in urls} == {"http://h:80"}
    assert {parse_base_url(url) for url in urls} == {parse_base_url("http://h")}


def test_b65_an_ipv6_address_has_brackets_in_text_and_none_as_a_host() -> None:
    assert str(Origin(scheme="http", host="fd00::12", port=8000)) == "http://[fd00::12]:8000"
    assert parse_origin("http://[FD00::12]:8000/v1").host == "fd00::12"
    assert parse_origin("http://[::1]").authority == "[::1]"


@pytest.mark.parametrize(
    ("url", "authority"),
    [("https://h", "h"), ("https://h:443", "h"), ("https://h:80", "h:80"), ("http://h:8", "h:8")],
)
def test_the_host_header_leaves_the_schemes_own_port_out(url: str, authority: str) -> None:
    assert parse_origin(url).authority == authority


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://h", "/v1/models"),
        ("http://h/v1", "/v1/models"),
        ("http://h/tenant/v1/", "/tenant/v1/models"),
        ("http://h/tenant", "/tenant/v1/models"),
    ],
)
def test_a_base_url_may_name_a_prefix_and_may_end_in_v1(url: str, path: str) -> None:
    assert parse_base_url(url).path("/v1/models") == path


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("fd00::12:8000", "expected http://"),
        ("ftp://h", "expected http://"),
        ("h:8000", "expected http://"),
        ("http://fd00::12:8000", "brackets"),
        ("http://h:0", "1 to 65535"),
        ("http://h:70000", "1 to 65535"),
        ("http://h:http", "1 to 65535"),
        ("http://", "host is missing"),
        ("http://h /v1", "no spaces"),
        ("http://h/v1?x=1", "no query"),
        ("http://[::1", "http://[::1"),
    ],
)
def test_what_is_no_base_url_is_refused_with_a_hint(url: str, hint: str) -> None:
    with pytest.raises(BadUrlError) as caught:
        parse_base_url(url)
    assert hint in str(caught.value)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadUrlError) as caught:
        parse_origin("http://user:hunter2@h")
    assert "hunter2" not in str(caught.value)
