from __future__ import annotations

from pathlib import Path

import pytest

from tare.sim.program.constants import resolve
from tare.sim.program.document import parse_document
from tare.sim.program.emit import Options, emit
from tare.sim.program.errors import ProgramError
from tare.sim.program.load import load
from tare.sim.program.run import Model

MODELS = Path(__file__).parents[4] / "examples" / "models"
PROGRAMS = sorted(MODELS.glob("*.sq"))


def test_there_is_a_model_for_each_of_the_four_chapters() -> None:
    assert [path.stem for path in PROGRAMS] == ["memory", "prefix-cache", "queue", "sessions"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_model_is_the_same_as_text_and_as_yaml(path: Path) -> None:
    kernels = []
    for model in (load(path), load(path.with_suffix(".yaml"))):
        settings = resolve(model.program, {})
        options = Options(keyed=False, compiled=False)
        kernel = emit(model.program, model.names, settings.constants, options)
        kernels.append((settings, kernel.source))
    assert kernels[0] == kernels[1]


GOOD = """\
let: {rate: 0.5, C: 100}
pools:
  kv: {cap: C, evict: {by: [size, last]}, block: 2}
stages: {engine: fifo(2)}
workload:
  arrive: poisson(rate)
  turn: {n: ~exp(5)}
session:
  - turn
  - hold:
      pool: kv
      units: n
      reuse: n / 2
      do: [{run: {engine: n}}]
      cache: n
  - branch: {if: n > 3, then: [{observe: {n: n}}], else: [{drop: kv}]}
  - end
run: {horizon: 100, warmup: 10, seed: 1}
"""


def test_every_clause_of_the_text_has_a_form_in_yaml() -> None:
    assert Model(parse_document(GOOD)).run().observations[0].summary.count > 5


BAD = [
    ("poisson(rate)", "poison(rate)", "6:11", "unexpected 'poison'; allowed here: 'batch'"),
    ("n > 3", "n + 3", "16:18", "branch needs a truth value"),
    ("n > 3", '"n > 3 3"', "16:25", "unexpected '3'"),
    ("n > 3", "n >", "16:21", "the text ends too early"),
    ("- turn", "- tern", "9:5", "a statement is one of: turn, end, set, observe, run"),
    ("{drop: kv}", "{drops: kv}", "16:59", "a statement is one of"),
    ("  - end", "  - {set: {x: 1}, observe: {x: 1}}", "17:5", "a statement is one of"),
    ("pool: kv", "pol: kv", "11:7", "unknown 'pol'; allowed here: pool, units"),
    ("      units: n\n", "", "10:5", "this hold has no 'units'"),
    ("{if: n > 3,", "{", "16:5", "either 'if' (a test) or 'with' (a probability)"),
    ("evict: {by: [size, last]}", "evict: mru", "3:23", "evict is 'lru' or {by: [keys]}"),
    ("evict: {by: [size, last]}", "evict: {}", "3:23", "evict is 'lru' or {by: [keys]}"),
    ("{rate: 0.5, C: 100}", "[rate, C]", "1:6", "a mapping is expected here"),
    ("{rate: 0.5, C: 100}", "{rate: 0.5, rate: 1, C: 1}", "1:18", "'rate' stands here twice"),
    ("{rate: 0.5, C: 100}", "{rate: 0.5, C-1: 100}", "1:18", "'C-1' is no name"),
    ("run: {h", "rum: {h", "18:1", "unknown 'rum'; allowed here: let, pools, stages"),
    ("run: {horizon: 100,", "run: {", "18:6", "the run has no horizon"),
    ("  arrive: poisson(rate)\n", "", "6:3", "does not say how sessions arrive"),
    ("cap: C", "cap: -1", "3:13", "the capacity of kv is -1"),
    ("cap: C", "cap: [", "3:14", "this is no YAML"),
    ("do: [{run: {engine: n}}]", "do: {run: {engine: n}}", "14:11", "a list is expected here"),
]


@pytest.mark.parametrize(("old", "new", "place", "words"), BAD)
def test_what_is_wrong_in_a_document_is_told_with_its_place(
    old: str, new: str, place: str, words: str
) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(ProgramError) as caught:
        Model(parse_document(GOOD.replace(old, new)))
    assert str(caught.value).startswith(place)
    assert words in str(caught.value)


def test_an_empty_document_says_what_it_needs() -> None:
    with pytest.raises(ProgramError, match="it needs: let, pools, stages"):
        parse_document("# nothing\n")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="No such file or directory"):
        load(tmp_path / "absent.sq")
    (tmp_path / "binary.sq").write_bytes(b"\xff\xfe")
    with pytest.raises(ProgramError, match="it is no UTF-8 text"):
        load(tmp_path / "binary.sq")
