"""Write what the chart holds copies of, and what follows from code: `python charts/generate.py`.

The CRD, the dashboards and the table of values in the chart's README. `tests/chart` fails when a
file differs from what this program makes.
"""

# ruff: noqa: INP001 - a script beside the chart, no package

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tare.telemetry.dashboards.run import run_dashboard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "tare"
BEGIN, END = "<!-- values: written by charts/generate.py -->\n", "<!-- end of values -->\n"


def main() -> None:
    """Write every file that differs."""
    for path, text in files().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def files() -> dict[Path, str]:
    """All generated files of the chart."""
    made = {
        CHART / "files" / "crds" / path.name: path.read_text()
        for path in (ROOT / "crds").glob("*.yaml")
    }
    made[CHART / "files" / "dashboards" / "run.json"] = _json(run_dashboard())
    made[CHART / "README.md"] = _readme((CHART / "README.md").read_text())
    return made


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def _readme(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    table = ["| value | default | what |\n", "| --- | --- | --- |\n", *_lines(schema, values, "")]
    return before + BEGIN + "".join(table) + END + after


def _lines(schema: Mapping[str, Any], values: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """One line for each leaf, in the order of values.yaml."""
    for name, default in values.items():
        field = schema["properties"][name]
        if "description" in field:
            yield f"| `{prefix}{name}` | `{json.dumps(default)}` | {field['description']} |\n"
        else:
            yield from _lines(field, default, f"{prefix}{name}.")


if __name__ == "__main__":
    main()
