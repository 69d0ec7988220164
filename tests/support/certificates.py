"""A self-signed certificate for `qwen.bench.svc`, made by openssl when a test asks for it."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ["Certificate", "certificate", "make_certificate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Files of a certificate and its key."""

    cert: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        """Make the context of a server that shows it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context


def make_certificate(folder: Path) -> Certificate:
    """Write a certificate that is its own authority."""
    cert, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=qwen.bench.svc"),
            *("-addext", "subjectAltName=DNS:qwen.bench.svc"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return Certificate(cert=cert, key=key)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """One certificate for all tests of a session."""
    return make_certificate(tmp_path_factory.mktemp("tls"))
