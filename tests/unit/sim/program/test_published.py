"""The published table and report, digit for digit, and what closed forms say."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import pytest

from tare.sim.program.load import load
from tare.sim.program.report import report
from tare.sim.program.run import Model
from tare.sim.program.sweep import Row, sweep, sweep_table
from tare.sim.program.text import parse

if TYPE_CHECKING:
    from tare.sim.program.outcome import Outcome

ROOT = Path(__file__).parents[4]
MODELS = ROOT / "examples" / "models"
PAGE = ROOT.parent / "shared" / "seeds" / "003_3175bf686c90b38b.txt"

# Capacity, hit rate, response, evicted entries, mean cached; rejected sessions are not on the page.
TABLE = [
    (2e5, "1.000", "0.0635", 0, 28_835, 0),
    (6e4, "0.979", "0.0672", 789, 28_107, 0),
    (4e4, "0.868", "0.0848", 5_220, 23_990, 0),
    (3e4, "0.719", "0.1049", 11_130, 19_094, 0),
    (2e4, "0.489", "0.1296", 20_196, 12_055, 28),
    (1.5e4, "0.356", "0.1383", 25_243, 8_215, 166),
    (1e4, "0.260", "0.1307", 27_696, 4_949, 784),
]
REPORT = """\
run: horizon 20000 end 20000 warmup 2000 seed 1 events 97621 arrivals 9905 ended 8903 turns 43947 \
mean live 5.977

observe   count    mean   95% CI    cv2     p99
--------  -----  ------  -------  -----  ------
response  43947  0.0635  ±0.0007  0.626  0.2375
hitrate   35044  1.0000  ±0.0000  0.000  1.0000

stage   number   util   done    thru    wait  service  iters
------  ------  -----  -----  ------  ------  -------  -----
engine   0.155  0.137  43947  2.4415  0.0073   0.0562      0
tool     5.822  0.998  35044  1.9469  0.0000   2.9903      0

pool   used   cached  queue  holders    wait  admits  evict(n)  evict(u)  preempt  spill  rej  stuck
----  -----  -------  -----  -------  ------  ------  --------  --------  -------  -----  ---  -----
kv    758.5  28834.6  0.000    0.155  0.0000   48810         0         0        0      0    0      0
"""


def mean(outcome: Outcome, name: str) -> float:
    found = next(o for o in outcome.observations if o.name == name)
    assert found.summary.mean is not None
    return found.summary.mean


def in_place_of_the_page(outcome: Outcome) -> tuple[str, str, int, int, int]:
    [kv] = outcome.pools
    return (
        f"{mean(outcome, 'hitrate'):.3f}",
        f"{mean(outcome, 'response'):.4f}",
        kv.evicted_entries,
        round(kv.mean_cached),
        kv.rejected,
    )


@pytest.fixture(scope="module")
def cache() -> Model:
    return load(MODELS / "prefix-cache.sq")


@pytest.fixture(scope="module")
def swept(cache: Model) -> list[Row]:
    return sweep(cache, "C", [capacity for capacity, *_ in TABLE], {})


def test_every_digit_of_the_seven_rows_is_reproduced(swept: list[Row]) -> None:
    assert [(row.value, *in_place_of_the_page(row.outcome)) for row in swept] == TABLE


def test_every_digit_of_the_report_is_reproduced(swept: list[Row]) -> None:
    assert report(swept[0].outcome) == REPORT


def test_rejected_sessions_are_shown_to_be_what_makes_the_last_row_look_better(
    swept: list[Row],
) -> None:
    before, last = ({same.name: same for same in row.same}["response"] for row in swept[-2:])
    assert before.mean_own is not None
    assert last.mean_own is not None
    assert before.mean_common is not None
    assert last.mean_common is not None
    assert last.mean_own < before.mean_own - 0.005
    assert last.mean_common > before.mean_common
    assert last.missing > 0.05
    assert swept[0].same[0].missing == 0
    assert "turns missing" in sweep_table("C", swept)
    assert "compare rows by 'same turns'" in sweep_table("C", swept)


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not beside this checkout")
def test_the_program_of_the_page_runs_as_it_stands() -> None:
    page = PAGE.read_text()
    end = page.index("}", page.index("run { horizon")) + 1
    model = Model(parse(page[page.index("// Chapter 4") : end]))
    assert report(model.run()) == REPORT
    assert in_place_of_the_page(model.run({"C": 1e4})) == TABLE[-1][1:]


def test_one_queue_is_reproduced_and_covers_the_closed_form() -> None:
    outcome = load(MODELS / "queue.sq").run()
    response, wait = (found.summary for found in outcome.observations)
    assert response.mean is not None
    assert response.half_width is not None
    assert wait.mean is not None
    assert wait.half_width is not None
    assert (f"{response.mean:.4f}", f"{response.half_width:.4f}") == ("4.8040", "0.2377")
    assert (f"{wait.mean:.4f}", f"{wait.half_width:.4f}") == ("3.8023", "0.2330")
    assert f"{response.p99:.4f}" == "20.4865"
    [server] = outcome.stages
    assert (f"{server.mean_number:.3f}", f"{server.utilization:.3f}") == ("3.816", "0.796")
    assert outcome.arrivals == 79_460
    assert abs(response.mean - 5) < response.half_width
    assert abs(wait.mean - 4) < wait.half_width


# As pyserq 0.1.0 prints it; the tutorial's own figures are of a later version.
MEMORY = [
    (4.0, "1.1893", "2.1902", 19_925),
    (6.0, "1.5358", "2.5369", 0),
    (10.0, "0.0947", "1.0959", 0),
    (20.0, "0.0006", "1.0039", 0),
]


def test_memory_as_a_resource_is_reproduced_with_its_rejections() -> None:
    model = load(MODELS / "memory.sq")
    rows = []
    for capacity, *_ in MEMORY:
        outcome = model.run({"C": capacity})
        waits = (f"{mean(outcome, name):.4f}" for name in ("admit_wait", "response"))
        rows.append((capacity, *waits, outcome.rejected))
    assert rows == MEMORY


def test_sessions_without_a_cache_are_reproduced() -> None:
    outcome = load(MODELS / "sessions.sq").run()
    response, context = (found.summary for found in outcome.observations)
    engine, tool = outcome.stages
    assert (f"{response.mean:.4f}", f"{response.half_width:.4f}") == ("0.1801", "0.0069")
    assert (f"{context.mean:.4f}", f"{context.half_width:.4f}") == ("4935.0401", "118.4264")
    assert f"{response.p99:.4f}" == "0.6162"
    assert f"{outcome.mean_live:.3f} {tool.mean_number:.3f} {engine.utilization:.3f}" == (
        "6.262 5.822 0.329"
    )


def test_own_random_numbers_give_the_population_of_two_hundred_seeds(cache: Model) -> None:
    # Mean and standard deviation of one run, from 200 seeds of an independent program.
    population = {"hitrate": (0.4658, 0.0101), "response": (0.1355, 0.0027)}
    counted = {"evicted": (21_608.0, 688.0), "cached": (11_941.0, 77.0)}
    runs = [cache.run({"C": 2e4}, seed=seed, keyed=True) for seed in range(1, 21)]
    found = {name: [mean(run, name) for run in runs] for name in population}
    found["evicted"] = [float(run.pools[0].evicted_entries) for run in runs]
    found["cached"] = [run.pools[0].mean_cached for run in runs]
    for name, (expected, deviation) in {**population, **counted}.items():
        error = deviation / len(runs) ** 0.5
        assert abs(fmean(found[name]) - expected) < 3 * error, name
        assert 0.4 < stdev(found[name]) / deviation < 1.8, name
