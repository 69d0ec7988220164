from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.load import closed_loop, work_order
from tare.api.names import ENV_AUTHORITY
from tare.measure.wire import encode
from tare.plan.order import TlsOrder
from tare.worker.orders import OrderError, read_assignment

if TYPE_CHECKING:
    from support.certificates import Certificate


def _order(url: str, tls: TlsOrder | None = None) -> bytes:
    target = {"urls": (url,), "tls": tls}
    return encode(work_order(phases=(closed_loop(requests=1),), target=target))


OWN = TlsOrder(authority_env=ENV_AUTHORITY)


def test_plain_http_needs_no_certificates() -> None:
    assert read_assignment({}, _order("http://h", OWN)).tls is None


def test_the_authority_comes_from_the_environment(certificate: Certificate) -> None:
    environ = {ENV_AUTHORITY: certificate.cert.read_text()}
    tls = read_assignment(environ, _order("https://h", OWN)).tls
    assert tls is not None
    assert len(tls.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, f"{ENV_AUTHORITY} is not set"),
        ({ENV_AUTHORITY: "rubbish"}, f"{ENV_AUTHORITY}: no certificate in PEM form"),
    ],
)
def test_an_authority_that_is_missing_or_none_is_named(
    environ: dict[str, str], message: str
) -> None:
    with pytest.raises(OrderError, match=message):
        read_assignment(environ, _order("https://h", OWN))
