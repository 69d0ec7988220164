"""Quantities of Kubernetes: `500m`, `2`, `1Gi`.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

__all__ = ["parse_quantity"]

_FACTORS: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}


def parse_quantity(text: str | float) -> Decimal:
    """Read a quantity; `ValueError` when it is none."""
    plain = str(text)
    for suffix in sorted(_FACTORS, key=len, reverse=True):
        if plain.endswith(suffix):
            return Decimal(plain.removesuffix(suffix)) * _FACTORS[suffix]
    return Decimal(plain)
