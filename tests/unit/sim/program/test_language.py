"""What statements do, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.programs import checked_run
from tare.sim.program.run import Model
from tare.sim.program.text import parse

if TYPE_CHECKING:
    from tare.sim.program.outcome import Outcome

_RUN = "run { horizon 1000; seed 1; }"


def run(declarations: str, session: str, *, turn: str = "", arrive: str = "batch(1)") -> Outcome:
    """Run a program of these parts; every pool operation is checked on the way."""
    text = f"{declarations} workload {{ arrive {arrive}; turn {{ {turn} }} }}"
    return checked_run(Model(parse(f"{text} session {{ {session} }} {_RUN}")))


def samples(outcome: Outcome, name: str) -> list[float]:
    return list(next(o for o in outcome.observations if o.name == name).samples)


def test_a_run_takes_its_time_and_the_rest_none() -> None:
    outcome = run("stage s : delay;", "set a = now; run s (2); set b = now; observe t = b - a;")
    assert samples(outcome, "t") == [2.0]


def test_what_follows_the_session_ends_it() -> None:
    outcome = run("stage s : delay;", "run s (1); observe x = now;")
    assert (outcome.ended, samples(outcome, "x")) == (1, [1.0])


def test_two_servers_serve_three_jobs_in_order_of_arrival() -> None:
    outcome = run("stage s : fifo(2);", "run s (2); observe done = now;", arrive="batch(3)")
    assert samples(outcome, "done") == [2.0, 2.0, 4.0]


def test_shared_service_is_slower_for_all() -> None:
    session = "turn; run s (w); observe done = now;"
    outcome = run("stage s : ps(1);", session, turn="set w = 2;", arrive="batch(2)")
    assert samples(outcome, "done") == [4.0, 4.0]


def test_the_rate_of_shared_service_can_depend_on_the_number_of_jobs() -> None:
    outcome = run("stage s : ps(min(n, 2));", "run s (2); observe done = now;", arrive="batch(3)")
    assert samples(outcome, "done") == pytest.approx([3.0, 3.0, 3.0])


def test_a_closed_workload_replaces_each_session_that_ends() -> None:
    outcome = run("stage s : fifo;", "run s (1); observe x = 1; end;", arrive="closed(3)")
    assert outcome.mean_live == pytest.approx(3.0)
    assert len(samples(outcome, "x")) == 1000


def test_gaps_between_arrivals_can_have_any_distribution() -> None:
    outcome = run("stage s : delay;", "observe at = now;", arrive="renewal(~det(250))")
    assert samples(outcome, "at") == [250.0, 500.0, 750.0, 1000.0]


def test_a_loop_goes_on_until_the_session_ends() -> None:
    session = (
        "set k = 0; loop { run s (1); set k = k + 1; branch (k == 5) { observe x = k; end; } }"
    )
    assert samples(run("stage s : delay;", session), "x") == [5.0]


@pytest.mark.parametrize(("k", "way"), [(1, 10.0), (2, 20.0), (3, 30.0)])
def test_branches_can_wait_inside_and_meet_again(k: int, way: float) -> None:
    session = f"""
      set k = {k};
      branch (k == 1) {{ run s (1); set way = 10; }}
      else {{ branch (k == 2) {{ set way = 20; }} else {{ run s (2); set way = 30; }} }}
      observe way = way;"""
    assert samples(run("stage s : delay;", session), "way") == [way]


def test_a_choice_evaluates_one_side_only() -> None:
    session = "set zero = 0; observe x = zero == 0 ? 5 : 1 / zero;"
    assert samples(run("stage s : delay;", session), "x") == [5.0]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3 - 4 / 2", 5.0),
        ("-(1 + 2) * +3", -9.0),
        ("7 - 2 - 1", 4.0),
        ("min(3, 2) + max(3, 2) + abs(-1)", 6.0),
        ("floor(2.7) + ceil(2.1) + sqrt(9) + pow(2, 3)", 16.0),
        ("ln(exp(2))", 2.0),
        ("1 < 2 && !(2 < 1) || 1 == 2", 1.0),
        ("(1 < 2) + (2 >= 2) + (1 != 1)", 2.0),
        ("2 > 1 ? 3 < 4 ? 5 : 6 : 7", 5.0),
        ("~det(4) + 0 * ~bernoulli(1)", 4.0),
        ("~bernoulli(1) && !(~bernoulli(0) && 1 == 1)", 1.0),
    ],
)
def test_expressions_have_their_usual_values(expression: str, value: float) -> None:
    assert samples(run("", f"observe x = {expression};"), "x") == pytest.approx([value])


def test_constants_are_computed_like_everything_else() -> None:
    lets = "let a = 3; let b = a > 2 && a != 4 ? min(a, 2) * -(1 + a) : 0;"
    assert samples(run(lets, "observe x = b;"), "x") == [-8.0]


def test_words_of_the_grammar_can_be_names_where_they_mean_nothing_else() -> None:
    session = "set cap = 1; set seed = 2; set settle = 3; observe turns = cap + seed + settle;"
    assert samples(run("let lettuce = 1;", session), "turns") == [6.0]


def test_a_large_hold_at_the_head_of_the_queue_lets_small_ones_wait_that_would_fit() -> None:
    outcome = run(
        "pool m { cap 10; } stage first : fifo; stage s : delay;",
        """run first (1);
           set at = now;
           hold m (at == 2 ? 8 : 4) { run s (10); observe done = now * 100 + at; }""",
        arrive="batch(3)",
    )
    # The second waits for the first, and the third, which would fit beside it, for the second.
    assert samples(outcome, "done") == [1101.0, 2102.0, 3103.0]


def test_a_hold_that_is_larger_than_the_pool_ends_the_session_at_once() -> None:
    outcome = run("pool m { cap 10; }", "hold m (11) { observe x = 1; } observe y = 1;")
    assert (outcome.rejected, outcome.ended, samples(outcome, "x")) == (1, 1, [])


def test_the_end_of_a_session_inside_holds_gives_everything_back() -> None:
    outcome = run(
        "pool a { cap 1; } pool b { cap 1; } stage s : delay;",
        "hold a (1) { hold b (1) { run s (100); end; } }",
        arrive="batch(4)",
    )
    assert outcome.ended == 4
    assert [pool.mean_used for pool in outcome.pools] == pytest.approx([0.4, 0.4])


_TURNS = "set k = 0; set t = 0; loop {{ {body} set k = k + 10; set t = t + 1; {more} }}"
_AGAIN = "branch (t == 3) { end; } else { run s (1); }"


def turns(
    body: str, pool: str = "cap 1000;", more: str = _AGAIN, arrive: str = "batch(1)"
) -> Outcome:
    session = _TURNS.format(body=body, more=more)
    return run(f"pool kv {{ {pool} }} stage s : delay;", session, arrive=arrive)


def test_what_a_turn_caches_the_next_one_finds() -> None:
    outcome = turns("hold kv (k + 10) { observe c = cached; } cache (k + 10);")
    assert samples(outcome, "c") == [0.0, 10.0, 20.0]


def test_cache_zero_takes_the_prefix_and_leaves_none() -> None:
    body = "hold kv (50) { observe c = cached; } cache (t == 0 ? 50 : 0);"
    assert samples(turns(body), "c") == [0.0, 50.0, 0.0]


def test_a_hold_without_cache_leaves_the_prefix_alone() -> None:
    body = """branch (t == 1) { hold kv (5) { observe c = cached; } }
              else { hold kv (50) { observe c = cached; } cache (50); }"""
    assert samples(turns(body), "c") == [0.0, 0.0, 50.0]


def test_a_dropped_prefix_is_not_found() -> None:
    body = "hold kv (50) { observe c = cached; } cache (50); drop kv;"
    assert samples(turns(body), "c") == [0.0, 0.0, 0.0]


def test_no_more_is_cached_than_was_held() -> None:
    body = "hold kv (k + 10) { observe c = cached; } cache (10000);"
    assert samples(turns(body), "c") == [0.0, 10.0, 20.0]


def test_reuse_limits_what_is_taken_over_in_whole_blocks() -> None:
    body = "hold kv (64) reuse (40) { observe c = cached; } cache (64);"
    assert samples(turns(body, "cap 1000; block 16;"), "c") == [0.0, 32.0, 32.0]


def test_holds_and_prefixes_are_counted_in_whole_blocks() -> None:
    body = "hold kv (k + 10) { observe c = cached; } cache (k + 10);"
    outcome = turns(body, "cap 1000; block 16;")
    assert samples(outcome, "c") == [0.0, 0.0, 16.0]


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("lru", [0.0, 20.0, 30.0]),
        ("by (last)", [0.0, 20.0, 30.0]),
        ("by (0 - size)", [10.0, 20.0, 0.0]),
        ("by (age)", [10.0, 20.0, 0.0]),
        ("by (size == 20, 0 - at)", [10.0, 20.0, 0.0]),
        ("by (size != 20)", [10.0, 0.0, 30.0]),
    ],
)
def test_evictions_follow_the_keys(keys: str, found: list[float]) -> None:
    # Three sessions leave prefixes of 10, 20 and 30 units, then a fourth needs a little too much.
    text = f"""
    pool kv {{ cap 100; evict {keys}; }} stage first : fifo; stage s : delay;
    workload {{ arrive batch(4); init {{ set at = 0; }} }}
    session {{
      run first (1);
      set at = now;
      branch (at < 3.5) {{
        hold kv (10 * at) {{ }} cache (10 * at);
        run s (10);
        hold kv (0) {{ observe found = cached; }} cache (0);
      }} else {{ hold kv (45) {{ run s (1); }} }}
    }}
    {_RUN}"""
    outcome = checked_run(Model(parse(text)))
    assert samples(outcome, "found") == found
    assert outcome.pools[0].evicted_entries == 1


@pytest.mark.parametrize(
    ("keys", "found"), [("0 - last", [10.0, 0.0]), ("waiting == 0, 0 - last", [0.0, 10.0])]
)
def test_a_session_that_waits_can_be_made_to_lose_its_prefix_first(
    keys: str, found: list[float]
) -> None:
    # The fourth waits for the third, and the first, with a prefix, behind it.
    text = f"""
    pool kv {{ cap 100; evict by ({keys}); }} stage first : fifo; stage s : delay;
    workload {{ arrive batch(4); init {{ set at = 0; }} }}
    session {{
      run first (1);
      set at = now;
      branch (at < 2.5) {{
        hold kv (10) {{ }} cache (10);
        run s (at == 1 ? 4.5 : 20);
        hold kv (5) {{ observe found = cached; }} cache (0);
      }} else {{ hold kv (at == 3 ? 75 : 85) {{ run s (3); }} }}
    }}
    {_RUN}"""
    assert samples(checked_run(Model(parse(text))), "found") == found


@pytest.mark.parametrize("evict", ["lru", "by (size)", "by (waiting, 0 - K)"])
@pytest.mark.parametrize("more", ["", "block 64;"])
def test_memory_is_never_overdrawn_whatever_is_evicted(evict: str, more: str) -> None:
    text = f"""
    pool kv {{ cap 6400; evict {evict}; {more} }} stage e : fifo; stage z : delay;
    workload {{ arrive poisson(0.8); init {{ set K = 0; }} turn {{ set n = ~exp(500); }} }}
    session {{ turn; loop {{
      hold kv (K + n) reuse (K / 2) {{ run e (3e-4 * (K + n - cached)); }} cache (K + n);
      set K = K + n;
      branch with (0.7) {{ run z (~exp(2)); turn; }} else {{ end; }} }} }}
    {_RUN}"""
    outcome = checked_run(Model(parse(text)))
    assert outcome.pools[0].evicted_entries > 100
    assert outcome.rejected > 0


def test_with_keyed_numbers_a_setting_changes_nothing_but_what_it_is_about() -> None:
    text = """
    let C = 1000; pool kv { cap C; } stage s : fifo; stage z : delay;
    workload { arrive poisson(0.5); turn { set n = ~exp(100); } }
    session { turn; loop {
      observe n = n;
      hold kv (n) { run s (n / 100); }
      branch with (0.5) { run z (~exp(3)); turn; } else { end; } } }
    run { horizon 2000; warmup 0; seed 1; }"""
    model = Model(parse(text))

    def seen(capacity: float, *, keyed: bool) -> dict[int, float]:
        found = model.run({"C": capacity}, keyed=keyed).observations[0]
        return dict(zip(found.turns, found.samples, strict=keyed))

    large, small = seen(1000, keyed=True), seen(150, keyed=True)
    common = large.keys() & small.keys()
    assert len(small) < len(large)
    assert len(common) > 200
    assert all(large[turn] == small[turn] for turn in common)
