"""What turns a request's text into token ids: made-up tokens, or the tokenizer of a real model.

With a model's folder (`tokenizer.json` and its chat template, as published beside the weights)
token counts and shared prefixes are those of a real server of that model. That needs the packages
`tokenizers` and `jinja2` (the extra `tokenizers`), which are imported only then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from tare.sim import tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tare.sim.tokens import Vocabulary

__all__ = ["FolderTokenizer", "MadeUpTokenizer", "Tokenizer", "TokenizerError"]

_WIDTH = 5
"""Characters of an answer's words, the space before them included."""
_WORDS = 4096
_FEWEST_WORDS = 16


class TokenizerError(Exception):
    """A folder is of no use; the message says why and what to do."""


class Tokenizer(Protocol):
    """Text to token ids."""

    vocabulary: Vocabulary
    """The words that answers are made of."""

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the ids of a text, with the model's special tokens around it if `special`."""

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> list[int]:
        """Render messages, whose contents are strings, with the chat template.

        `options` is the request's body, with what else templates look at.

        Raises:
            TokenizerError: the template refuses them.
        """


class MadeUpTokenizer:
    """Words as tokens, see `tare.sim.tokens`; there are no special ones."""

    vocabulary = tokens.MADE_UP

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the ids of a text."""
        del special
        return tokens.encode(text)

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> list[int]:
        """Render the messages' roles and contents."""
        del options
        return tokens.encode_chat((message["role"], message["content"]) for message in messages)


class FolderTokenizer:
    """The tokenizer of a real model."""

    def __init__(self, folder: Path) -> None:
        """Read the folder.

        Raises:
            TokenizerError: a package or a file is missing, or a file cannot be read.
        """
        try:
            from tokenizers import Tokenizer as Reader  # noqa: PLC0415 - an optional package
        except ImportError:
            raise TokenizerError(_MISSING) from None
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise TokenizerError(f"{file} does not exist; take the model's folder, as published")
        try:
            self._reader = Reader.from_file(str(file))
        except Exception as error:  # the package raises a plain Exception
            raise TokenizerError(f"{file} cannot be read: {error}") from error
        config = _config(folder)
        self._names = _special_names(config)
        self._render = _template(folder, config)
        self.vocabulary = self._answer_words() or tokens.MADE_UP

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the ids of a text."""
        ids: list[int] = self._reader.encode(text, add_special_tokens=special).ids
        return ids

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> list[int]:
        """Render messages as vLLM does: without further special tokens, open for the answer."""
        given = options.get("chat_template_kwargs")
        opened = options.get("add_generation_prompt")
        try:
            text = self._render(
                messages=messages,
                tools=options.get("tools"),
                documents=options.get("documents"),
                add_generation_prompt=opened is None or bool(opened),
                **self._names,
                **(given if isinstance(given, dict) else {}),
            )
        except Exception as error:  # a template may fail in any way
            raise TokenizerError(f"the chat template refuses this: {error}") from error
        return self.encode(text, special=False)

    def _answer_words(self) -> Vocabulary | None:
        """Return words of one token each, so that an answer sent back as text has its tokens."""
        found: dict[int, str] = {}
        for token, number in sorted(self._reader.get_vocab().items(), key=lambda item: item[1]):
            word = " " + token[1:]
            plain = len(word) == _WIDTH and word[1:].isascii() and word[1:].isalpha()
            if plain and self.encode(word, special=False) == [number]:
                found[number] = word
            if len(found) == _WORDS:
                break
        if len(found) < _FEWEST_WORDS:
            return None
        number = 1 << len(found).bit_length() - 1
        ids = tuple(found)[:number]
        words = tuple(found[number] for number in ids)
        if self.encode("".join(words[:2]), special=False) != list(ids[:2]):
            return None
        return tokens.Vocabulary(words, ids, fragments=False)


_MISSING = "--tokenizer needs the extra 'tokenizers': pip install 'tare-operator[tokenizers]'"


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "tokenizer_config.json"
    try:
        config = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise TokenizerError(f"{file} is no JSON: {error}") from None
    return config if isinstance(config, dict) else {}


def _special_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Return what templates know by names such as `bos_token`."""
    found = {}
    for name, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return found


def _template(folder: Path, config: Mapping[str, Any]) -> Callable[..., str]:
    """Compile the chat template as the package `transformers` does.

    https://huggingface.co/docs/transformers/chat_templating_writing
    """
    try:
        from jinja2 import TemplateError  # noqa: PLC0415 - an optional package
        from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415
    except ImportError:
        raise TokenizerError(_MISSING) from None

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = refuse
    try:
        return environment.from_string(_template_text(folder, config)).render
    except TemplateError as error:
        raise TokenizerError(f"the chat template of {folder} cannot be read: {error}") from None


def _to_json(value: object, indent: int | None = None) -> str:
    """Return JSON as it is; the template language's own filter escapes it for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _template_text(folder: Path, config: Mapping[str, Any]) -> str:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text()
    text = config.get("chat_template")
    if isinstance(text, list):
        # Several by name, of which "default" is used where no tools are asked for.
        named = {entry.get("name"): entry.get("template") for entry in text}
        text = named.get("default")
    if not isinstance(text, str):
        raise TokenizerError(
            f"{folder} has no chat template: neither chat_template.jinja nor chat_template in "
            "tokenizer_config.json"
        )
    return text
