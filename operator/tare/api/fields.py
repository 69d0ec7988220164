"""What all models of the API share: the base class, text patterns, rules over several fields.

A rule that spans fields is one `Rule`: its check in Python, its mirror in CEL for the API server
and its message stand side by side, so that the three cannot drift apart. Patterns carry the words
that explain them, because "does not match ^[a-z]…" helps nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError

from tare.api import quantity
from tare.telemetry.overriding import override

__all__ = [
    "ATOMIC",
    "BROKEN_RULES",
    "MAX_INT32",
    "NO_VARIANT",
    "PATTERN_WORDS",
    "DnsLabel",
    "DnsName",
    "Duration",
    "FreeForm",
    "HeaderName",
    "HookPath",
    "IntOrText",
    "LabelKey",
    "LabelValue",
    "Line",
    "Model",
    "Number",
    "Quantity",
    "QueueName",
    "Rule",
    "Seconds",
    "Url",
    "is_dns_name",
    "scalar_tag",
    "switch_tag",
]

BROKEN_RULES = "broken_rules"
"""Type of the pydantic error that carries broken rules in its context, under the same key."""
NO_VARIANT = "no_variant"
"""Type of the pydantic error of a value that fits no variant of a union; it says what does."""
MAX_INT32 = 2**31 - 1
ATOMIC = {"x-kubernetes-list-type": "atomic"}
"""Schema of a list that is replaced whole by server-side apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A condition over the fields of one object."""

    message: str
    """What is allowed and what to do; the same sentence comes from the API server."""
    field: str = ""
    """The field to blame, in camelCase; the object itself when empty."""
    holds: Callable[[Any], bool] | None = None
    """The check; None for a transition, which only the API server sees."""
    cel: str | None = None
    """Mirror for the API server; None where CEL cannot see the fields."""

    def to_schema(self) -> dict[str, str]:
        """Write the rule as an entry of `x-kubernetes-validations`."""
        assert self.cel is not None, "only rules with a mirror are written"
        entry = {"rule": self.cel, "message": self.message}
        if self.field:
            entry["fieldPath"] = f".{self.field}"
        return entry


class Model(BaseModel):
    """Base of every object of `spec`: camelCase outside, unknown fields refused, immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        allow_inf_nan=False,
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )

    RULES: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _obey_rules(self) -> Self:
        broken = tuple(rule for rule in self.RULES if rule.holds and not rule.holds(self))
        if broken:
            document = self.model_dump(by_alias=True, exclude_none=True)
            raise PydanticCustomError(
                BROKEN_RULES, "broken rules", {BROKEN_RULES: broken, "document": document}
            )
        return self

    @classmethod
    @override
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core_schema))
        mirrored = [rule.to_schema() for rule in cls.RULES if rule.cel]
        if mirrored:
            schema["x-kubernetes-validations"] = mirrored
        return schema


def scalar_tag(value: object) -> str | None:
    """Name the variant of a `number | text` union; tags in `<>` never show in a path."""
    match value:
        case bool():
            return None
        case int() | float():
            return "<number>"
        case str():
            return "<text>"
        case _:
            return None


def switch_tag(value: object) -> str | None:
    """Name the variant of a `false | true | object` union."""
    match value:
        case bool():
            return "<switch>"
        case dict() | Model():
            return "<object>"
        case _:
            return None


_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_QUEUE = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"
_HEADER = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
_LINE = r"^[^\x00-\x08\x0a-\x1f\x7f]*$"
_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_HOOK_PATH = r"^/([^/#\s][^#\s]*)?$"
_URL = r"^https?://[^/?#@\s]+(/[^?#\s]*)?$"

PATTERN_WORDS = {
    _DNS_LABEL: "use lower-case letters, digits and '-', with a letter or digit at both ends",
    _DNS_NAME: "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends",
    _QUEUE: "write the name of a LocalQueue, or remove the line",
    _HEADER: "a header's name has letters, digits and '-' only",
    _LINE: "use one line of text without control characters",
    _LABEL_VALUE: "use at most 63 letters, digits, '-', '_' and '.', as Kubernetes labels do",
    _LABEL_KEY: "write a label key of Kubernetes, as example.com/name",
    _HOOK_PATH: "start it with one '/', as /reset_prefix_cache, and use no blanks and no '#'",
    _URL: "write http:// or https://, a host and if need be a port and a path; "
    "no user, password, query or fragment",
    quantity.DURATION_PATTERN: "write a number and ms, s, m or h, as 500ms",
    quantity.NUMBER_PATTERN: "write a plain decimal number in quotes, as '2.608'",
    quantity.QUANTITY_PATTERN: "write a duration as 500ms, a share as 1% or a number as 2.5",
}
"""What to write instead, for every pattern of the API."""

_MAX_DNS_NAME = 253


def is_dns_name(text: str) -> bool:
    """Whether a text is a DNS-1123 subdomain, as names of Kubernetes objects are."""
    return len(text) <= _MAX_DNS_NAME and re.match(_DNS_NAME, text) is not None


DnsLabel = Annotated[str, StringConstraints(pattern=_DNS_LABEL, max_length=63)]
DnsName = Annotated[str, StringConstraints(pattern=_DNS_NAME, max_length=_MAX_DNS_NAME)]
HeaderName = Annotated[str, StringConstraints(pattern=_HEADER, max_length=128)]
Line = Annotated[str, StringConstraints(pattern=_LINE, max_length=4096)]
LabelKey = Annotated[str, StringConstraints(pattern=_LABEL_KEY, max_length=317)]
LabelValue = Annotated[str, StringConstraints(pattern=_LABEL_VALUE, max_length=63)]
QueueName = Annotated[str, StringConstraints(pattern=_QUEUE, max_length=63)]
"""Empty for none; a label value, so shorter than other names."""
HookPath = Annotated[str, StringConstraints(pattern=_HOOK_PATH, max_length=256)]
"""A path on the model server; two slashes at its start would name another host."""
Url = Annotated[str, StringConstraints(pattern=_URL, max_length=2048)]
Duration = Annotated[str, StringConstraints(pattern=quantity.DURATION_PATTERN, max_length=16)]
Number = Annotated[str, StringConstraints(pattern=quantity.NUMBER_PATTERN, max_length=32)]
Seconds = Annotated[float, Field(gt=0, le=604_800)]
"""Up to a week."""
Quantity = Annotated[
    Annotated[float, Field(ge=0), Tag("<number>")]
    | Annotated[
        str,
        StringConstraints(pattern=quantity.QUANTITY_PATTERN, max_length=32),
        Tag("<text>"),
    ],
    Discriminator(
        scalar_tag,
        custom_error_type=NO_VARIANT,
        custom_error_message="write a number, or a text as 500ms or 1%",
    ),
]
"""A bound of a goal: its meaning depends on the metric."""
IntOrText = Annotated[
    Annotated[int, Field(ge=0, le=MAX_INT32), Tag("<number>")]
    | Annotated[str, StringConstraints(min_length=1, max_length=64), Tag("<text>")],
    Discriminator(
        scalar_tag,
        custom_error_type=NO_VARIANT,
        custom_error_message="write a whole number or a text",
    ),
]
FreeForm = Annotated[dict[str, Any], Field(max_length=64)]
"""An object that Tare hands on unread."""
