from __future__ import annotations

import pytest

from tare.sim.program.errors import ProgramError
from tare.sim.program.run import Model
from tare.sim.program.text import parse

GOOD = """\
let rate = 0.5;
let C = 100;
pool kv { cap C; evict lru; }
stage engine : fifo;
workload { arrive poisson(rate); init { set K = 0; } turn { set n = ~exp(5); } }
session {
  turn;
  hold kv (n) { run engine (n); } cache (n);
  observe hit = K > 0;
  end;
}
run { horizon 100; warmup 10; seed 1; }
"""


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


BAD = [
    # What is changed, into what, where the error is, and words of its message.
    ("let rate = 0.5;", "lett rate = 0.5;", "1:1", "allowed here: 'let', 'pool'"),
    ("  turn;\n", "  tern;\n", "7:3", "allowed here: 'branch', 'drop', 'end', 'hold', 'loop'"),
    ("evict lru", "evict fifo", "3:24", "allowed here: 'by', 'lru'"),
    (": fifo;", ": lifo;", "4:16", "allowed here: 'delay', 'fifo', 'ps'"),
    ("let rate = 0.5;", "let rate = 0.5", "2:1", "unexpected 'let'; allowed here: ';'"),
    ("  end;\n}\n", "  end;\n", "11:5", "unexpected '{'; allowed here: a name"),
    ("seed 1; }\n", "seed 1; ", "12:39", "the text ends too early; allowed here"),
    ("0.5;", "0.5; @", "1:17", "'@' means nothing here"),
    ("session {\n  turn;", "session {\n  observe x = 3 +; turn;", "7:18", "a name, a number"),
    ("rate = 0.5", "rate = 0", "5:27", "the arrival rate is 0; it must be more than 0"),
    ("rate = 0.5", "rate = 1 / 0", "1:12", "division by zero"),
    ("rate = 0.5", "rate = ln(-1)", "1:12", "this has no value"),
    ("rate = 0.5", "rate = ln(1, 2)", "1:12", "ln takes 1 argument(s), here are 2"),
    ("rate = 0.5", "rate = log(2)", "1:12", "unknown function 'log'; there are: abs, ceil"),
    ("rate = 0.5", "rate = ~exp(2)", "1:12", "a constant cannot be drawn at random"),
    ("rate = 0.5", "rate = other", "1:12", "'other' is no constant known here; known: none"),
    ("C = 100", "C = -1", "3:15", "the capacity of kv is -1; it must be more than 0"),
    ("fifo;", "fifo(1.5);", "4:21", "the number of servers of engine is 1.5; it must be whole"),
    ("fifo;", "fifo(0);", "4:21", "it must be at least 1 and at most"),
    ("horizon 100", "horizon -5", "12:15", "the horizon is -5; it must be at least 0"),
    ("horizon 100", "horizon 0", "12:15", "leaves no time to run"),
    ("warmup 10", "warmup 100", "12:27", "leaves nothing of the horizon of 100 s"),
    ("seed 1", "seed 1.5", "12:36", "the seed is 1.5; it must be whole"),
    ("horizon 100;", "", "12:1", "the run has no horizon"),
    ("horizon 100;", "horizon 100; horizon 5;", "12:20", "a second 'horizon'"),
    ("arrive poisson(rate);", "", "5:1", "does not say how sessions arrive"),
    ("stage engine", "stage kv", "4:1", "'kv' is declared twice"),
    ("~exp(5)", "~exp(-5)", "5:74", "the mean of ~exp is -5; it must be at least 0"),
    ("~exp(5)", "~uniform(5, 3)", "5:78", "~uniform(5, 3) is empty"),
    ("~exp(5)", "~bernoulli(1.5)", "5:80", "it must be from 0 to 1"),
    ("~exp(5)", "~gauss(5)", "5:69", "unknown distribution ~gauss; there are: ~bernoulli, ~det"),
    ("~exp(5)", "~exp(5, 6)", "5:69", "~exp takes 1 argument(s), here are 2"),
    ("init { set K = 0; }", "init { turn; }", "5:41", "only sets attributes"),
    ("run engine (n)", "run engin (n)", "8:17", "there is no stage 'engin'; declared: engine"),
    ("hold kv (n)", "hold engine (n)", "8:3", "there is no pool 'engine'; declared: kv"),
    ("hold kv (n)", "hold kv (engine)", "8:12", "'engine' is a pool or a stage, not a number"),
    ("K > 0", "Q > 0", "9:17", "unknown name 'Q'; known here: rate, C, now, K, n"),
    ("K > 0", "cached", "9:17", "'cached' is known inside a hold only"),
    ("  turn;", "  set rate = 3;", "7:3", "'rate' is a constant"),
    ("  turn;", "  set now = 3;", "7:3", "'now' is given by the simulator"),
    ("  turn;", "  branch (K) { turn; }", "7:11", "branch needs a truth value, such as K > 0"),
    ("K > 0", "K ? 1 : 2", "9:17", "a choice ( … ? … : … ) needs a truth value"),
    ("K > 0", "!K", "9:18", "'!' needs a truth value"),
    ("K > 0", "K > 0 && K", "9:26", "'&&' needs a truth value"),
    ("cache (n);", "cache (~exp(1) > 0 ? n : n); hold kv (1) { hold kv (2) { } }", "8:78",
     "a hold of 'kv' inside a hold of it"),
    ("{ run engine (n); } cache (n);", "reuse (3) { run engine (n); }", "8:3", "needs a cache"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "words"), BAD)
def test_what_is_wrong_is_told_with_its_place_and_what_is_allowed(
    old: str, new: str, place: str, words: str
) -> None:
    with pytest.raises(ProgramError) as caught:
        Model(parse(changed(old, new)))
    caught.value.file = "model.sq"
    assert str(caught.value).startswith(f"model.sq:{place}: ")
    assert words in str(caught.value)


IN_THE_RUN = [
    ("run engine (n)", "run engine (n - 100)", "8:17", "the work of a run must be at least 0 s"),
    ("run engine (n)", "run engine (never)", "8:29", "unknown name 'never'"),
    ("hold kv (n)", "hold kv (0 - n)", "8:3", "the units of a hold must be at least 0, and are -"),
    ("cache (n);", "cache (0 - n);", "8:3", "the units of a cache must be at least 0, and are -"),
    ("K > 0", "1 / K", "9:3", "no value can be computed here: float division by zero"),
    ("K > 0", "ln(K - 1)", "9:3", "no value can be computed here: math domain error"),
    ("K > 0", "pow(10, 1000 + K)", "9:3", "no value can be computed here"),
    ("  turn;", "  turn; set K = ~exp(n - 100);", "7:9", "the mean of ~exp must be at least 0"),
    ("  turn;", "  turn; set K = ~uniform(n, 0);", "7:9", "the first parameter of ~uniform"),
    ("  turn;", "  turn; branch with (n) { }", "7:9", "a probability must be from 0 to 1"),
    ("  turn;", "  turn; loop { set K = K + 1; }", "7:9", "this loop goes round without a wait"),
    ("  turn;", "  turn; loop { run engine (0); }", "7:9", "this loop goes round without a wait"),
    ("poisson(rate)", "renewal(0 - ~exp(1))", "5:27", "a gap between arrivals must be at least 0"),
    ("fifo;", "ps(1 - n);", "4:19", "a rate must be more than 0, and is 0"),
    ("init { set K = 0; }", "init { set K = later; set later = 1; }", "9:3", "no finite number"),
    ("init { set K = 0; } turn { set n = ~exp(5); }",
     "init { set K = 0; set x = 1; } turn { set n = x == 1 ? later : 5; set later = 1; }", "8:3",
     "(no number: is an attribute read before it is set?)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "words"), IN_THE_RUN)
def test_what_goes_wrong_in_a_run_is_told_with_the_statement_that_did_it(
    old: str, new: str, place: str, words: str
) -> None:
    text = changed(old, new)
    if "finite" in words:
        text = text.replace("observe hit = K > 0", "observe hit = K")
    with pytest.raises(ProgramError) as caught:
        Model(parse(text)).run()
    assert str(caught.value).startswith(f"{place}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("part", ["workload", "session", "run"])
def test_a_program_without_one_of_its_parts_is_refused(part: str) -> None:
    lines = "".join(GOOD.splitlines(keepends=True))
    start = lines.index(f"\n{part} {{") + 1
    depth, end = 0, start
    while True:
        depth += {"{": 1, "}": -1}.get(lines[end], 0)
        end += 1
        if depth == 0 and lines[end - 1] == "}":
            break
    with pytest.raises(ProgramError, match=f"the program has no {part}"):
        Model(parse(lines[:start] + lines[end:]))


def test_a_run_that_has_too_many_events_is_given_up() -> None:
    with pytest.raises(ProgramError, match=r"given up after 1,000 events, at .* --max-steps"):
        Model(parse(changed("rate = 0.5", "rate = 1e9"))).run(max_steps=1000)


def test_sessions_that_end_at_once_and_come_again_at_once_are_given_up() -> None:
    text = changed("poisson(rate)", "closed(1)").replace("hold kv (n)", "hold kv (1000)")
    with pytest.raises(ProgramError, match="given up after 5,000 events, at 0 s"):
        Model(parse(text)).run(max_steps=5000)


def test_a_constant_that_is_not_there_cannot_be_set() -> None:
    with pytest.raises(ProgramError, match="no constant 'D' to set; the program has: rate, C"):
        Model(parse(GOOD)).run({"D": 3.0})


def test_an_override_is_checked_like_what_is_written() -> None:
    with pytest.raises(ProgramError, match="the capacity of kv is -3"):
        Model(parse(GOOD)).run({"C": -3.0})


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000 + "1" + ")" * 3000,
        "+".join(["1"] * 3000),
        "-" * 3000 + "1",
        "1 == 1 ? " * 800 + "1" + " : 2" * 800,
    ],
)
def test_deep_expressions_are_refused_or_run_but_never_break_the_interpreter(text: str) -> None:
    try:
        Model(parse(changed("K > 0", text))).run()
    except ProgramError as error:
        assert "nested too deeply" in str(error) or "levels" in str(error)  # noqa: PT017
