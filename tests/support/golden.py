"""Golden files: a document is compared with the one that a person has read and committed.

`UPDATE=1 python -m pytest …` writes them anew; the diff is then reviewed like code.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["assert_golden"]


def assert_golden(path: Path, document: Any) -> None:
    """Compare a JSON document with the YAML file at `path`, or write it with `UPDATE=1`."""
    if os.environ.get("UPDATE") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True))
    assert path.exists(), f"{path.name} is missing; UPDATE=1 writes it"
    assert yaml.safe_load(path.read_text()) == document
