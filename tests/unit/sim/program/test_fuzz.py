from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tare.sim.program.document import parse_document
from tare.sim.program.errors import ProgramError
from tare.sim.program.run import Model
from tare.sim.program.text import parse

MODELS = Path(__file__).parents[4] / "examples" / "models"
TEXTS = [path.read_text() for path in sorted(MODELS.glob("*.sq"))]
DOCUMENTS = [path.read_text() for path in sorted(MODELS.glob("*.yaml"))]
WORDS = sorted({word for text in TEXTS for word in text.split()} | {"0", "-1", "1e999", "~det(1)"})


@st.composite
def mutated(draw: st.DrawFn, texts: list[str], separator: str) -> str:
    """Return a program in which a few words are replaced, removed, doubled or swapped."""
    words = draw(st.sampled_from(texts)).split(separator)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(words) - 1))
        match draw(st.sampled_from(["replace", "remove", "double", "swap"])):
            case "replace":
                words[at] = draw(st.sampled_from(WORDS))
            case "remove" if len(words) > 1:
                del words[at]
            case "double":
                words.insert(at, words[at])
            case _:
                words[at - 1], words[at] = words[at], words[at - 1]
    return separator.join(words)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated(TEXTS, " "))
def test_a_mutilated_program_runs_or_says_what_is_wrong(text: str) -> None:
    try:
        Model(parse(text)).run(max_steps=300)
    except ProgramError as error:
        assert str(error)  # noqa: PT017 - either way is right


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated(DOCUMENTS, "\n"))
def test_a_mutilated_document_runs_or_says_what_is_wrong(text: str) -> None:
    try:
        Model(parse_document(text)).run(max_steps=300)
    except ProgramError as error:
        assert str(error)  # noqa: PT017


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_at_all_is_refused_in_words(text: str) -> None:
    for read in (parse, parse_document):
        try:
            read(text)
        except ProgramError as error:
            assert str(error)  # noqa: PT017
        else:
            raise AssertionError("no program is that short")
