"""A model's folder as it is published beside the weights: a small tokenizer and a chat template."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SPECIAL", "TEMPLATE", "write_model_folder"]

SPECIAL = ["<bos>", "<start>", "<end>"]
TEMPLATE = (
    "{% if messages[0].role == 'assistant' %}{{ raise_exception('no question') }}{% endif %}"
    "{% for m in messages %}\n<start>{{ m['role'] }}\n{{ m['content'] }}<end>\n  {% endfor %}\n"
    "  {% if add_generation_prompt %}\n<start>assistant{{ mood or '' }}\n{% endif %}"
)
"""Its blocks stand on lines of their own, which renderers for models leave out."""
_WORDS = [a + b + c + d for a in "bdfg" for b in "aeiou" for c in "klmn" for d in "aeiou"]


def write_model_folder(folder: Path, **config: Any) -> Tokenizer:
    """Write the files and return the tokenizer; `config` is for tokenizer_config.json."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([" ".join(_WORDS)] * 3, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 0)]
    )
    made.save(str(folder / "tokenizer.json"))
    written = {"bos_token": {"content": "<bos>"}, "chat_template": TEMPLATE, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(written))
    return made
