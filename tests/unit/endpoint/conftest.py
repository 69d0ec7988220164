from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.certificates import Certificate, make_certificate

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder: Path = tmp_path_factory.mktemp("tls")
    return make_certificate(folder)
