from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.sim.core.pool import CACHED, EPSILON, USED, Pool, add_session, drop, keep, new_pool
from tare.sim.core.steps import (
    FINISHED,
    ITERATIONS,
    PREEMPTIONS,
    PREFILLED,
    SCHEDULED,
    STUCK,
    Engine,
    Limits,
    add_request,
    finish_iteration,
    new_engine,
    preempt,
    start_iteration,
    submit,
)


def limits(
    *, budget: float = 100, requests: int = 4, blocks: int = 20, jump: bool = False
) -> Limits:
    return Limits(
        budget=budget,
        max_requests=requests,
        block=4.0,
        capacity=blocks * 4.0,
        alpha=0.01,
        omega=0.1,
        beta=0.001,
        jump=jump,
    )


@dataclass
class Server:
    """An engine with a clock: runs until nobody is left."""

    limits: Limits
    engine: Engine = field(init=False)
    pool: Pool = field(default_factory=new_pool)
    now: float = 0.0
    log: list[tuple[float, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = new_engine(self.limits)

    def submit(self, prompt: float, output: float) -> int:
        add_request(self.engine)
        add_session(self.pool)
        request = len(self.engine.prompt) - 1
        submit(self.engine, self.pool, request, prompt, output, self.now)
        return request

    def step(self) -> bool:
        engine, until = self.engine, self.now + 1000.0
        seconds = start_iteration(engine, self.pool, self.limits, self.now, until, 0.0)
        if seconds < 0:
            return False
        self.check()
        self.now += seconds
        finish_iteration(engine, self.pool, self.limits, self.now)
        self.check()
        for place in range(engine.counts[PREFILLED]):
            self.log.append((round(self.now, 9), "first", engine.prefilled[place]))
        for place in range(engine.counts[FINISHED]):
            self.log.append((round(self.now, 9), "last", engine.finished[place]))
        return True

    def run(self, most: int = 10_000) -> None:
        for _ in range(most):
            if not self.step():
                return

    def check(self) -> None:
        levels = self.pool.levels
        assert levels[USED] + levels[CACHED] <= self.limits.capacity + EPSILON
        held = sum(self.pool.need[request] for request in self.engine.residents)
        assert levels[USED] == pytest.approx(held)
        assert len(self.engine.residents) <= self.limits.max_requests
        for request in self.engine.residents:
            assert self.engine.position[request] <= self.pool.need[request] + EPSILON


def test_a_long_prompt_is_prefilled_in_chunks_of_the_budget() -> None:
    server = Server(limits(budget=16))
    server.submit(40, 1)
    server.run()
    assert server.engine.counts[ITERATIONS] == 3
    # 16 and 16 tokens to compute, then 8, for which reading the memory takes longer.
    assert server.log == [(0.46, "first", 1), (0.46, "last", 1)]


def test_prefill_and_decode_share_an_iteration_and_slow_each_other_down() -> None:
    server = Server(limits(budget=30))
    server.submit(4, 3)
    server.step()
    alone = server.now
    server.submit(40, 1)
    server.step()
    assert server.now - alone == pytest.approx(30 * 0.01)
    assert server.engine.tokens[:2] == [1.0, 29.0]


def test_the_head_of_the_queue_that_does_not_fit_blocks_those_behind_it() -> None:
    server = Server(limits(blocks=10))
    server.submit(24, 8)
    server.submit(30, 1)
    server.submit(4, 1)
    server.step()
    assert server.engine.residents == [1]
    server.run()
    assert [request for _, what, request in server.log if what == "first"] == [1, 2, 3]


def test_who_cannot_grow_takes_the_memory_of_the_request_that_was_admitted_last() -> None:
    server = Server(limits(blocks=4, requests=2))
    server.submit(7, 6)
    server.submit(8, 4)
    server.run()
    assert server.engine.counts[PREEMPTIONS] >= 1
    order = [request for _, what, request in server.log if what == "last"]
    assert order == [1, 2]


def test_a_preempted_request_finds_its_computed_blocks_again() -> None:
    server = Server(limits(blocks=5, requests=2))
    server.submit(7, 12)
    server.submit(8, 8)
    while not server.engine.counts[PREEMPTIONS] and server.step():
        pass
    assert server.engine.residents == [1]
    assert server.pool.after[0] == 2
    assert server.pool.size[server.pool.entry[2]] == 8.0
    server.run()
    assert [what for _, what, request in server.log if request == 2] == ["first", "first", "last"]


def test_the_last_token_of_a_prompt_is_computed_even_when_all_of_it_is_cached() -> None:
    server = Server(limits())
    request = server.submit(8, 2)
    keep(server.pool, request, 8.0, 0.0)
    server.step()
    assert server.engine.tokens[0] == 4.0  # the last block
    drop(server.pool, request, 0.0)


def test_a_request_that_is_preempted_again_without_progress_is_counted_as_stuck_once() -> None:
    server = Server(limits(budget=8))
    server.submit(30, 1)
    stuck = []
    for _ in range(3):
        server.step()
        server.engine.position[1] = 8.0
        preempt(server.engine, server.pool, server.limits, 1, server.now)
        stuck.append(server.engine.counts[STUCK])
    assert stuck == [0, 1, 1]


_REQUESTS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=8)


@given(
    requests=_REQUESTS,
    budget=st.integers(1, 50),
    most=st.integers(1, 4),
    blocks=st.integers(18, 40),
)
def test_memory_is_never_overdrawn_and_jumping_over_equal_iterations_changes_nothing(
    requests: list[tuple[int, int]], budget: int, most: int, blocks: int
) -> None:
    servers = []
    for jump in (False, True):
        server = Server(limits(budget=budget, requests=most, blocks=blocks, jump=jump))
        for prompt, output in requests:
            server.submit(prompt, output)
        server.run()
        servers.append(server)
    steps, jumps = servers
    # A request may be preempted for ever when two of them fit nowhere; both stop alike then.
    assert steps.engine.counts == jumps.engine.counts
    assert [(what, r) for _, what, r in steps.log] == [(what, r) for _, what, r in jumps.log]
    assert [at for at, *_ in steps.log] == pytest.approx([at for at, *_ in jumps.log])
    assert jumps.engine.counts[SCHEDULED] == 0
