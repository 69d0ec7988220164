"""Token counts of a real model's folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from support.model_folder import TEMPLATE, write_model_folder
from tare.sim.serve.main import main
from tare.sim.serve.tokenizer import FolderTokenizer, TokenizerError
from tare.sim.tokens import MADE_UP, Answer

if TYPE_CHECKING:
    from pathlib import Path

HELLO = [{"role": "user", "content": "bake data"}]


def test_a_text_has_the_ids_of_the_models_tokenizer(tmp_path: Path) -> None:
    real = write_model_folder(tmp_path)
    made = FolderTokenizer(tmp_path)
    text = "bake data, and a word that nobody knows: żółw"
    assert made.encode(text, special=False) == real.encode(text, add_special_tokens=False).ids
    assert made.encode(text, special=True) == [0, *made.encode(text, special=False)]


def test_messages_are_rendered_with_the_chat_template_and_opened_for_the_answer(
    tmp_path: Path,
) -> None:
    real = write_model_folder(tmp_path)
    text = "<start>user\nbake data<end>\n<start>assistant\n"
    expected = real.encode(text, add_special_tokens=False).ids
    assert FolderTokenizer(tmp_path).encode_chat(HELLO, {}) == expected


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ({"add_generation_prompt": False}, ""),
        ({"chat_template_kwargs": {"mood": " glad"}}, "<start>assistant glad\n"),
    ],
)
def test_what_the_request_says_to_the_template_counts(
    tmp_path: Path, options: dict[str, Any], end: str
) -> None:
    real = write_model_folder(tmp_path)
    text = f"<start>user\nbake data<end>\n{end}"
    expected = real.encode(text, add_special_tokens=False).ids
    assert FolderTokenizer(tmp_path).encode_chat(HELLO, options) == expected


@pytest.mark.parametrize("place", ["file", "named"])
def test_a_template_may_stand_in_a_file_or_under_a_name(tmp_path: Path, place: str) -> None:
    real = write_model_folder(tmp_path)
    if place == "file":
        write_model_folder(tmp_path, chat_template=None)
        (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    else:
        entries = [{"name": "rag", "template": "x"}, {"name": "default", "template": TEMPLATE}]
        write_model_folder(tmp_path, chat_template=entries)
    text = "<start>user\nbake data<end>\n<start>assistant\n"
    expected = real.encode(text, add_special_tokens=False).ids
    assert FolderTokenizer(tmp_path).encode_chat(HELLO, {}) == expected


def test_a_template_can_refuse_messages(tmp_path: Path) -> None:
    write_model_folder(tmp_path)
    with pytest.raises(TokenizerError, match="the chat template refuses this: no question"):
        FolderTokenizer(tmp_path).encode_chat([{"role": "assistant", "content": "a"}], {})


def test_an_answer_that_comes_back_as_text_has_the_tokens_that_were_generated(
    tmp_path: Path,
) -> None:
    write_model_folder(tmp_path)
    made = FolderTokenizer(tmp_path)
    assert made.vocabulary is not MADE_UP
    answer = Answer.to((1, 2, 3), 7, made.vocabulary)
    assert made.encode(answer.text(0, 100), special=False) == answer.ids(100)
    assert len({len(word) for word in made.vocabulary.piece_bytes}) == 1


def test_a_conversation_that_goes_on_shares_the_answer_too(tmp_path: Path) -> None:
    write_model_folder(tmp_path)
    made = FolderTokenizer(tmp_path)
    first = made.encode_chat(HELLO, {})
    answer = Answer.to(tuple(first), 7, made.vocabulary)
    said = {"role": "assistant", "content": answer.text(0, 40)}
    later = made.encode_chat([*HELLO, said, *HELLO], {})
    assert later[: len(first) + 40] == first + answer.ids(40)


def test_a_template_that_is_wrong_is_told(tmp_path: Path) -> None:
    write_model_folder(tmp_path, chat_template="{% if %}")
    with pytest.raises(TokenizerError, match=r"the chat template of .* cannot be read: Expected"):
        FolderTokenizer(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "tokenizer.json does not exist; take the model's folder"),
        ({"tokenizer.json": "{}"}, "tokenizer.json cannot be read: "),
        ({"tokenizer_config.json": "{"}, "tokenizer_config.json is no JSON"),
        ({"tokenizer_config.json": "{}"}, "has no chat template: neither chat_template.jinja nor"),
    ],
)
def test_a_folder_that_is_of_no_use_is_one_sentence_and_exit_code_2(
    tmp_path: Path, files: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "tokenizer_config.json" in files:
        write_model_folder(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert main(["--tokenizer", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("package", ["tokenizers", "jinja2"])
def test_without_the_packages_the_extra_is_named(
    tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model_folder(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TokenizerError, match=r"pip install 'tare-operator\[tokenizers\]'"):
        FolderTokenizer(tmp_path)
