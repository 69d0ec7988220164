"""The documentation says what the code does: generated pages, links, manifests, commands."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_makes(generate: ModuleType) -> None:
    written = {path.name: path.read_text() for path in (DOCS / "reference").iterdir()}
    assert written == generate.pages(), "run `make generate`"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = [page.parent / target for target in _LINK.findall(page.read_text())]
    assert [str(target) for target in targets if not target.exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_make_verb_that_is_named_exists(page: Path) -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert named <= verbs


def manifests() -> list[tuple[str, str]]:
    """Complete manifests in the pages."""
    found = []
    for page in PAGES:
        for language, text in _BLOCK.findall(page.read_text()):
            if language == "yaml" and "kind: BenchmarkRun" in text:
                found.append((relative(page), text))
    return found


def test_the_readme_shows_a_manifest() -> None:
    assert "README.md" in [page for page, _ in manifests()]


@pytest.mark.parametrize(("page", "text"), manifests(), ids=[page for page, _ in manifests()])
def test_a_manifest_that_is_shown_is_valid(page: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tare", "validate", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{page}: {done.stdout}{done.stderr}"


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    navigation = yaml.safe_dump(yaml.safe_load(text)["nav"])
    missing = [str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")]
    assert [page for page in missing if page not in navigation] == []
