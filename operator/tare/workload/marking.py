"""Puts a marker into the messages of a chat.

What a message holds is a text or a list of parts. In a list the marker joins the text part at its
place, since a server puts a line break between two parts: a part of its own would change more of
the prompt than the marker itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.plan.markers import Place

__all__ = ["mark", "mark_text"]

Message = dict[str, Any]


def mark(messages: Sequence[Mapping[str, Any]], place: Place, marker: str) -> list[Message]:
    """Return the messages with the marker in the system message, or in the first user turn.

    A place in a system message that is not there falls through to the first user turn. That is the
    last message before the first answer: a context that stands before it is not touched.
    """
    marked = [dict(message) for message in messages]
    index = _system(marked) if place.in_system else None
    if index is None:
        index = _first_turn(marked)
    message = marked[index]
    message["content"] = _mark_content(message.get("content"), place, marker)
    return marked


def mark_text(text: str, place: Place, marker: str) -> str:
    """Return a text with the marker before or behind it."""
    return text + marker if place.at_end else marker + text


def _system(messages: Sequence[Message]) -> int | None:
    return next((i for i, m in enumerate(messages) if m["role"] in ("system", "developer")), None)


def _first_turn(messages: Sequence[Message]) -> int:
    """Index of the last message of the user before the first answer."""
    answer = next((i for i, m in enumerate(messages) if m["role"] == "assistant"), len(messages))
    users = [i for i, message in enumerate(messages[:answer]) if message["role"] == "user"]
    return users[-1] if users else answer - 1


def _mark_content(content: Any, place: Place, marker: str) -> Any:
    if isinstance(content, str) or content is None:
        return mark_text(content or "", place, marker)
    parts = [dict(part) for part in content]
    texts = [i for i, part in enumerate(parts) if part.get("type") == "text"]
    if not texts:
        part = {"type": "text", "text": marker}
        return [*parts, part] if place.at_end else [part, *parts]
    part = parts[texts[-1] if place.at_end else texts[0]]
    part["text"] = mark_text(part["text"], place, marker)
    return parts
