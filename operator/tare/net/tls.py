"""How the certificate of the model service is checked: one answer for load, hooks and scrapes."""

from __future__ import annotations

import ssl

__all__ = ["BadAuthorityError", "client_context"]


class BadAuthorityError(ValueError):
    """The text that should hold the authority's certificate holds none."""


def client_context(*, authority: str | None = None, verify: bool = True) -> ssl.SSLContext:
    """Return the TLS settings of a client.

    Args:
        authority: PEM of the only authority that is trusted; the system's ones when None.
        verify: False accepts any certificate for any name.

    Raises:
        BadAuthorityError: `authority` is no PEM.
    """
    if authority is not None and not authority.strip():
        # Python takes an empty text for none, and would trust the system's authorities.
        raise BadAuthorityError("no certificate in PEM form (it is empty)")
    try:
        context = ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise BadAuthorityError(f"no certificate in PEM form ({error})") from error
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Without it a proxy may choose HTTP/2, which nobody here speaks.
    context.set_alpn_protocols(["http/1.1"])
    return context
