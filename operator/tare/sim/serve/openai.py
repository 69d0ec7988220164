"""Reads the bodies of the OpenAI API as vLLM does: what is asked for, or the error vLLM answers.

Texts, types and status codes of errors were taken from a vLLM 0.32, so that a client which handles
them here handles them there. Unknown fields are ignored, as there; sampling parameters and `stop`
too, since the simulated text does not depend on them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tare.sim.serve.prompt import Prompt
from tare.sim.serve.tokenizer import Tokenizer, TokenizerError

__all__ = ["ApiError", "Limits", "TextRequest", "read_generation", "read_object", "read_tokenize"]

DEFAULT_CHAT_TOKENS = 128
"""A chat answer without a limit ends by itself after so many tokens."""
DEFAULT_COMPLETION_TOKENS = 16
"""The API's own default for completions."""
_SALT_BYTES = 7
"""Below 2**61, where Python's hash of an integer is the integer itself."""


class ApiError(Exception):
    """A request is refused; carries what the answer says."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param

    def document(self) -> dict[str, Any]:
        """Return the body of the answer."""
        error = {"message": str(self), "type": self.kind, "param": self.param, "code": self.status}
        return {"error": error}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the server accepts."""

    models: tuple[str, ...]
    max_model_len: int
    block_size: int
    tokenizer: Tokenizer
    block_sizes: Mapping[str, int] = field(default_factory=dict)
    """Of models that have one of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """A chat or completion request that is accepted."""

    chat: bool
    model: str
    prompt: Prompt
    text: Any
    """Messages or prompt as they came, for the log of truth."""
    limit: int
    """Tokens to generate."""
    ends_by_itself: bool
    """The answer ends before any limit: `finish_reason` is `stop`, else `length`."""
    stream: bool
    include_usage: bool
    continuous_usage: bool

    @property
    def finish_reason(self) -> str:
        """Why the complete answer ends."""
        return "stop" if self.ends_by_itself else "length"


def read_object(content_type: str, body: bytes) -> dict[str, Any]:
    """Parse a JSON object; anything else is refused with 400."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise _malformed("Unsupported Media Type: Only 'application/json' is allowed", None)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _invalid("json_invalid", f"body.{error.pos}", f"JSON decode error: {error}") from None
    if not isinstance(document, dict):
        raise _invalid("model_attributes_type", "body", "Input should be a valid dictionary")
    return document


def read_generation(body: dict[str, Any], limits: Limits, *, chat: bool) -> TextRequest:
    """Check a request for text and tokenise its prompt."""
    read = _chat_prompt if chat else _completion_prompt
    ids, text = read(body, limits.tokenizer)
    stream = _boolean(body, "stream")
    options = _stream_options(body, stream=stream)
    model = _model(body, limits)
    _exactly_one_answer(body)
    limit, ends_by_itself = _limit(body, limits, len(ids), chat=chat)
    return TextRequest(
        chat=chat,
        model=model,
        prompt=Prompt(ids, limits.block_sizes.get(model, limits.block_size), _salt(body)),
        text=text,
        limit=limit,
        ends_by_itself=ends_by_itself,
        stream=stream,
        include_usage=_boolean(options, "include_usage"),
        continuous_usage=_boolean(options, "continuous_usage_stats"),
    )


def read_tokenize(body: dict[str, Any], limits: Limits) -> list[int]:
    """Return the ids for one `prompt` string, or for `messages` with the template."""
    if "messages" in body:
        ids, _ = _chat_prompt(body, limits.tokenizer)
    else:
        prompt = body.get("prompt")
        if "prompt" not in body:
            raise _invalid("missing", "body.prompt", "Field required")
        if not isinstance(prompt, str):
            raise _invalid("string_type", "body.prompt", "Input should be a valid string")
        ids = limits.tokenizer.encode(prompt, special=_special(body))
    _model(body, limits)
    return ids


def _malformed(message: str, param: str | None) -> ApiError:
    return ApiError(400, f"1 validation error:\n  {message}", "Bad Request", param)


def _invalid(kind: str, place: str, message: str) -> ApiError:
    return _malformed(f"{{'type': '{kind}', 'loc': '{place}', 'msg': '{message}'}}", place)


def _refused(message: str, param: str | None, value: object = None) -> ApiError:
    if param is not None:
        shown = "" if value is None else f", value={value}"
        message = f"{message} (parameter={param}{shown})"
    return ApiError(400, message, "BadRequestError", param)


def _chat_prompt(body: dict[str, Any], tokenizer: Tokenizer) -> tuple[list[int], Any]:
    if "messages" not in body:
        raise _invalid("missing", "body.messages", "Field required")
    messages = body["messages"]
    if not isinstance(messages, list):
        raise _invalid("list_type", "body.messages", "Input should be a valid list")
    if not messages:
        raise _refused(
            "Cannot apply chat template to an empty conversation. Provide at least one message.",
            None,
        )
    read = [_message(message, f"body.messages.{i}") for i, message in enumerate(messages)]
    try:
        return tokenizer.encode_chat(read, body), messages
    except TokenizerError as error:
        raise _refused(str(error), None) from None


def _message(message: Any, place: str) -> dict[str, Any]:
    """Return the message with its content as one string."""
    if not isinstance(message, dict):
        raise _invalid("dict_type", place, "Input should be a valid dictionary")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise _invalid("missing", f"{place}.role", "Field required")
    if isinstance(content, list):
        parts = (_text_part(part, f"{place}.content.{i}") for i, part in enumerate(content))
        return {**message, "content": "\n".join(parts)}
    if content is not None and not isinstance(content, str):
        raise _invalid("string_type", f"{place}.content", "Input should be a valid string")
    return {**message, "content": content or ""}


def _text_part(part: Any, place: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part, dict) and part.get("type") not in (None, "text"):
        raise _refused("The simulated model is not a multimodal model", None)
    raise _invalid("missing", f"{place}.text", "Field required")


def _completion_prompt(body: dict[str, Any], tokenizer: Tokenizer) -> tuple[list[int], Any]:
    """Read a string, a list of token ids, or a list with exactly one of these."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
        if len(prompt) > 1:
            raise _refused("The simulated server takes one prompt per request", "prompt")
        prompt = prompt[0]
    if not prompt:
        raise _refused("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    if isinstance(prompt, str):
        return tokenizer.encode(prompt, special=_special(body)), prompt
    if isinstance(prompt, list) and all(type(item) is int and item >= 0 for item in prompt):
        return prompt, prompt
    raise _invalid("string_type", "body.prompt", "Input should be a valid string or token ids")


def _special(body: dict[str, Any]) -> bool:
    """Whether the model's special tokens stand around a text, as they do unless refused."""
    return body.get("add_special_tokens") is None or _boolean(body, "add_special_tokens")


def _boolean(body: dict[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise _invalid("bool_parsing", f"body.{name}", "Input should be a valid boolean")
    return bool(value)


def _integer(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is not None and type(value) is not int:
        raise _invalid("int_parsing", f"body.{name}", "Input should be a valid integer")
    return value


def _stream_options(body: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    options = body.get("stream_options")
    if options is None:
        return {}
    if not isinstance(options, dict):
        place = "body.stream_options"
        raise _invalid("model_type", place, "Input should be a valid dictionary")
    if not stream:
        raise _refused("Stream options can only be defined when `stream=True`.", "stream_options")
    return options


def _model(body: dict[str, Any], limits: Limits) -> str:
    """Return the model asked for; without one it is the first that is served."""
    model = body.get("model")
    if model is None:
        return limits.models[0]
    if model not in limits.models:
        aliases = ", ".join(limits.models)
        message = f"The model `{model}` does not exist. Valid aliases: {aliases}."
        raise ApiError(404, message, "NotFoundError", "model")
    return str(model)


def _exactly_one_answer(body: dict[str, Any]) -> None:
    count = _integer(body, "n")
    if count is not None and count < 1:
        raise _refused(f"n must be at least 1, got {count}.", None)
    if count is not None and count > 1:
        raise _refused(
            f"The simulated server gives one answer, n={count} was asked for", "n", count
        )


def _limit(
    body: dict[str, Any], limits: Limits, prompt_tokens: int, *, chat: bool
) -> tuple[int, bool]:
    """Return how many tokens to generate, and whether the model stops there by itself."""
    longest = limits.max_model_len
    name = "max_completion_tokens" if chat and body.get("max_completion_tokens") else "max_tokens"
    asked = _integer(body, name)
    if asked is not None and asked < 1:
        raise _refused(f"{name} must be at least 1, got {asked}.", name, asked)
    if asked is not None and asked > longest:
        message = (
            f"{name}={asked} cannot be greater than max_model_len={longest}. "
            "Please request fewer output tokens."
        )
        raise _refused(message, name, asked)
    room = longest - prompt_tokens
    if room < 1:
        message = (
            f"This model's maximum context length is {longest} tokens. However, your prompt "
            f"contains at least {longest + 1} input tokens, which exceeds this limit even without "
            "any output tokens. Please reduce the length of the input prompt."
        )
        raise _refused(message, "input_tokens", longest + 1)
    if asked is not None:
        return min(asked, room), False
    if _boolean(body, "ignore_eos"):
        return room, False
    if not chat:
        return min(DEFAULT_COMPLETION_TOKENS, room), False
    return min(DEFAULT_CHAT_TOKENS, room), room >= DEFAULT_CHAT_TOKENS


def _salt(body: dict[str, Any]) -> int:
    salt = body.get("cache_salt")
    if salt is None:
        return 0
    if not isinstance(salt, str) or not salt:
        message = "Parameter 'cache_salt' must be a non-empty string if provided."
        raise _refused(message, "cache_salt")
    return int.from_bytes(hashlib.blake2b(salt.encode(), digest_size=_SALT_BYTES).digest(), "big")
