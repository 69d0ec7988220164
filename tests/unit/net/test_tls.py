from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from tare.net.tls import BadAuthorityError, client_context

if TYPE_CHECKING:
    from support.certificates import Certificate


def test_by_default_a_certificate_is_checked_against_the_systems_authorities() -> None:
    context = client_context()

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_an_authority_is_the_only_one_that_is_trusted(certificate: Certificate) -> None:
    context = client_context(authority=certificate.cert.read_text())

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    (trusted,) = context.get_ca_certs()
    assert trusted["subject"] == ((("commonName", "qwen.bench.svc"),),)


def test_without_checks_any_certificate_will_do() -> None:
    context = client_context(verify=False)

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    "text", ["", "no pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_text_without_a_certificate_is_named_as_such(text: str) -> None:
    with pytest.raises(BadAuthorityError, match="no certificate in PEM form"):
        client_context(authority=text)
