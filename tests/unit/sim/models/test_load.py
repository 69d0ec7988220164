from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from support.agents import CHAPTER_4, LIMITS
from tare.sim.core.batching import ContinuousBatching
from tare.sim.core.slots import Slots
from tare.sim.models.load import ServerModelError, load_server_model, preset_names

MINIMAL = {
    "scheduler": "slots",
    "max_num_seqs": 2,
    "block_size": 16,
    "kv_blocks": 100,
    "cost": {"step": 0.01},
}
MS = 1_000_000


def written(folder: Path, **changes: object) -> str:
    path = folder / "server.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, **changes}))
    return str(path)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid_and_says_what_it_is(name: str) -> None:
    model = load_server_model(name)
    assert model.description
    assert model.new_engine().memory.capacity == model.settings.kv_blocks


def test_the_published_chapters_are_presets() -> None:
    four, five = load_server_model("chapter-4").settings, load_server_model("chapter-5").settings
    assert (four.cost.step, four.cost.prefill) == (CHAPTER_4.output * 1e9, CHAPTER_4.prompt * 1e9)
    assert four.kv_blocks * four.block_size == CHAPTER_4.capacity
    assert five.max_num_seqs == LIMITS.max_requests
    assert five.max_num_batched_tokens == LIMITS.budget
    assert five.kv_blocks * five.block_size == LIMITS.capacity
    assert (five.cost.step, five.cost.kv_token, five.cost.token) == (
        LIMITS.omega * 1e9,
        LIMITS.beta * 1e9,
        LIMITS.alpha * 1e9,
    )


def test_a_slot_of_the_board_gets_slower_with_the_batch() -> None:
    ten, twenty = (load_server_model(f"board@max_num_seqs={batch}") for batch in (10, 20))
    assert ten.settings.cost.step == 8 * MS
    assert ten.settings.cost.prefill == 0.8 * MS
    assert twenty.settings.cost.step == 12 * MS
    assert ten.settings.start_ns == (150 + 8) * MS


def test_a_file_is_a_model_too(tmp_path: Path) -> None:
    model = load_server_model(written(tmp_path, overhead=0.02, patience=3))
    assert isinstance(model.new_engine(), Slots)
    assert (model.settings.overhead_ns, model.settings.patience_ns) == (20 * MS, 3000 * MS)


def test_fields_can_be_changed_behind_an_at_sign() -> None:
    model = load_server_model("chapter-5@kv_blocks=40000,cost.step=1e-3")
    assert isinstance(model.new_engine(), ContinuousBatching)
    assert (model.settings.kv_blocks, model.settings.cost.step) == (40_000, MS)
    assert model.name == "chapter-5@kv_blocks=40000,cost.step=1e-3"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("bord", "there is no server model 'bord'; use a100-qwen3-8b, board, "),
        ("bord", "did you mean board?"),
        ("nowhere.yaml", "nowhere.yaml: cannot be read: No such file or directory"),
        ("board@max_num_seqs=0", "max_num_seqs: 0 is not allowed; give a whole number of 1 or"),
        ("board@max_num_seqs=2.5", "max_num_seqs: 2.5 is not allowed"),
        ("board@patience=0", "patience: 0 is not allowed; give a number of seconds above 0"),
        ("board@overhead=-1", "overhead: -1 is not allowed; give a number of seconds, 0 or more"),
        ("board@overhead=.nan", "overhead: nan is not allowed"),
        ("board@max_seqs=3", "max_seqs: unknown; allowed are description, source, scheduler"),
        ("board@max_seqs=3", "did you mean max_num_seqs?"),
        ("board@cost.stp=3", "cost.stp: unknown; allowed are cost.step, "),
        ("board@cost.step=fast", "cost.step: 'fast' is not allowed; give a number, 0 or more"),
        ("board@cost=3", "cost: 3 is not allowed; give an object of times"),
        ("board@overhead.x=3", "overhead has no fields, so not overhead.x"),
        ("board@overhead", "'overhead' is not of the form field=value"),
        ("board@overhead=[", "the value in 'overhead=[' is no YAML"),
        ("board@scheduler=magic", "scheduler: 'magic' is not allowed; give batching or slots"),
        ("chapter-5@patience=3", "patience is for scheduler slots, and this one is batching"),
        ("board@cost.kv_token=1", "cost.kv_token is for scheduler batching, and this one is slots"),
        ("chapter-4@scheduler=batching", "max_num_batched_tokens is missing"),
    ],
)
def test_what_is_wrong_is_said_with_field_value_and_what_is_allowed(
    reference: str, words: str
) -> None:
    with pytest.raises(ServerModelError) as caught:
        load_server_model(reference)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "no YAML: "),
        ("- a", "no object; write fields such as scheduler, "),
        ("scheduler: slots", "max_num_seqs is missing; give a whole number of 1 or more"),
        ("{1: 2}", "scheduler is missing"),
        ("\x00", "no YAML: "),
    ],
)
def test_a_file_that_is_no_model_gets_one_clear_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ServerModelError) as caught:
        load_server_model(str(path))
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_description_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServerModelError, match="description: 3 is not allowed; give a text"):
        load_server_model(written(tmp_path, description=3))


def test_the_model_in_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "simulate.md").read_text()
    [text] = re.findall(r"```yaml\n(scheduler: .*?)```", page, re.DOTALL)
    path = tmp_path / "shown.yaml"
    path.write_text(text)
    settings = load_server_model(str(path)).settings
    assert (settings.overhead_ns, settings.cost.step) == (40 * MS, 4 * MS)


def test_without_the_yaml_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ServerModelError, match=r"pip install 'tare-operator\[sim\]'"):
        load_server_model("board")
