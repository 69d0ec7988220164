"""The table of manifests that must be refused, and by whom; and of odd ones that must not be.

Each row changes a valid manifest. `refused_by` says who sees it first:

* `SCHEMA`: the API server's schema; `tare validate` and the operator say it as well;
* `CEL`: a rule of the CRD; its message is the operator's, word by word;
* `OPERATOR`: the operator alone; the API server takes it (unions, free-form fields, sweeps, fields
  that this version does not build, targets).

`fragments` must be in the operator's message, and for `CEL` rows in the API server's too.
"""

from __future__ import annotations

from support.manifest_rows.accepted import ACCEPTED
from support.manifest_rows.endpoint import AROUND, REQUEST, SPELLING, TARGET
from support.manifest_rows.hooks import HOOKS
from support.manifest_rows.load import DATASET, LOAD, SWEEP
from support.manifest_rows.prompts import PROMPTS
from support.manifest_rows.row import DELETE, Refuser, Row, Variation, changed, valid_manifest
from support.manifest_rows.unbuilt import UNBUILT
from support.manifest_rows.verdict import GOALS, WORKERS

__all__ = [
    "ACCEPTED",
    "DELETE",
    "INVALID",
    "UNBUILT",
    "Refuser",
    "Row",
    "Variation",
    "changed",
    "valid_manifest",
]

INVALID: tuple[Row, ...] = (
    *AROUND,
    *TARGET,
    *REQUEST,
    *SPELLING,
    *HOOKS,
    *DATASET,
    *PROMPTS,
    *LOAD,
    *SWEEP,
    *GOALS,
    *WORKERS,
    *UNBUILT,
)
"""Every manifest that must be refused."""
