"""A report as one file of HTML: style and charts are in it, and it loads nothing."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tare.results.report.page import page_of

if TYPE_CHECKING:
    from tare.results.document import RunResults

__all__ = ["to_html"]


def to_html(results: RunResults) -> str:
    """Write the report of a run; every text in it is escaped."""
    environment = _environment()
    loader = environment.loader
    assert loader is not None
    style, _, _ = loader.get_source(environment, "style.css")
    template = environment.get_template("page.html")
    # Our own file, and no value stands in it.
    return template.render(page=page_of(results), style=Markup(style))  # noqa: S704


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("tare.results.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
