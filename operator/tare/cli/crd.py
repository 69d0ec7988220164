"""`tare crd`: print the CustomResourceDefinition.

`crds/` holds the same text, written by `make generate`; a test holds the two against each other.
"""

from __future__ import annotations

import click
import yaml

from tare.api.crd import build_crd
from tare.telemetry.overriding import override

__all__ = ["command", "render"]

_HEAD = (
    "# Written by `make generate` from the models in operator/tare/api; changes here are lost.\n"
)


class _Dumper(yaml.SafeDumper):
    """Writes repeated parts out: anchors are hard to read, and some tools do not know them."""

    @override
    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def render() -> str:
    """Write the CRD as YAML; the same models always give the same text."""
    return _HEAD + yaml.dump(
        build_crd(), Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True
    )


@click.command("crd")
def command() -> None:
    """Print the CustomResourceDefinition.

    Apply it with `tare crd | kubectl apply --server-side -f -`.
    """
    click.echo(render(), nl=False)
