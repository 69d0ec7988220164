"""A model service in virtual time: replicas of one server model, each with its own cache.

It reads the very bodies that a worker would send, as `tare sim serve` does, so that prompts,
markers, salts and the chat template make the same tokens and the same shared prefixes here as
there. Replicas are served in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import orjson

from tare.sim.core.generations import Generation, State
from tare.sim.predict.usage import PoolUsage, Watch, combined
from tare.sim.serve.openai import ApiError, Limits, TextRequest, read_generation
from tare.sim.serve.prompt import AnswerKeys
from tare.sim.serve.tokenizer import MadeUpTokenizer
from tare.sim.tokens import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.sim.models.load import ServerModel
    from tare.sim.predict.clock import VirtualClock

__all__ = ["Client", "Flight", "Service"]

_SEED: Final = 0
"""Of the answers' texts: that of `tare sim serve` unless told otherwise."""
_GIVEN_UP: Final = 503
_NEVER: Final = 1 << 63
"""A time after all others."""


class Client(Protocol):
    """Who sent a request and is told what becomes of it."""

    def on_tokens(self, flight: Flight, first_at: int, last_at: int, count: int) -> None:
        """`count` more tokens came, evenly from `first_at` to `last_at`, in nanoseconds."""

    def on_refused(self, status: int, message: str) -> None:
        """The server answers with this HTTP status instead of tokens."""


class Flight:
    """A request on its way through a replica: part of `core.generations.Listener`."""

    __slots__ = ("_client", "_over", "_preempted_at", "answer", "asked", "generation", "replica")

    def __init__(
        self, client: Client, replica: int, asked: TextRequest, over: list[Flight]
    ) -> None:
        self._client = client
        self._over = over
        """Where it puts itself when its answer is complete, or given up."""
        self._preempted_at = -1
        self.replica = replica
        self.asked = asked
        self.answer = Answer.to(tuple(asked.prompt.ids), _SEED)
        self.generation = Generation(
            prompt_tokens=len(asked.prompt.ids),
            keys=asked.prompt.keys,
            limit=asked.limit,
            listener=self,
            more_keys=AnswerKeys(asked.prompt, self.answer),
        )

    def on_tokens(self, generation: Generation, count: int) -> None:
        """Tell the client."""
        if generation.state is State.GIVEN_UP:
            self._over.append(self)
            message = "The server is overloaded: the request cannot be done in time"
            self._client.on_refused(_GIVEN_UP, message)
        else:
            if generation.finished:
                self._over.append(self)
            first_at, last_at = generation.due_at, generation.last_token_at
            self._client.on_tokens(self, first_at, last_at, count)

    def is_stuck(self) -> bool:
        """Whether it was preempted again, without a token since the last time."""
        generation = self.generation
        again = generation.generated == self._preempted_at
        self._preempted_at = generation.generated
        return again


class Service:
    """Replicas of a server on one clock."""

    def __init__(self, model: ServerModel, *, replicas: int, clock: VirtualClock) -> None:
        self._clock = clock
        self._engines = [model.new_engine() for _ in range(replicas)]
        self._watches = [Watch(engine) for engine in self._engines]
        self._flights: list[dict[Flight, int]] = [{} for _ in range(replicas)]
        """Requests of each replica, with their preemptions so far."""
        self._over: list[Flight] = []
        """Requests of the replica that advances which have ended."""
        self._dues = [_NEVER] * replicas
        """When each replica has something to do."""
        self._ends = [_NEVER] * replicas
        """A time before which no request of a replica ends."""
        settings = model.settings
        self._limits = Limits(
            models=("",),
            max_model_len=settings.kv_blocks * settings.block_size,
            block_size=settings.block_size,
            tokenizer=MadeUpTokenizer(),
        )

    @property
    def replicas(self) -> int:
        """Number of servers."""
        return len(self._engines)

    def submit(self, body: bytes, client: Client, *, chat: bool, replica: int) -> Flight | None:
        """Take a request in; None when it is refused, which the client is told a moment later."""
        engine, watch, now = self._engines[replica], self._watches[replica], self._clock.now()
        document = orjson.loads(body)
        document.pop("model", None)  # Every name is served.
        try:
            asked = read_generation(document, self._limits, chat=chat)
        except ApiError as error:
            watch.rejected += 1
            status, message = error.status, str(error)
            self._clock.call_later(0.0, lambda: client.on_refused(status, message))
            return None
        flight = Flight(client, replica, asked, self._over)
        watch.note(now)
        watch.backlog.append(engine.waiting)
        engine.submit(now, flight.generation)
        self._flights[replica][flight] = 0
        self._look(replica)
        return flight

    def abort(self, flight: Flight) -> None:
        """End a request that nobody waits for any more."""
        replica, now = flight.replica, self._clock.now()
        self._watches[replica].note(now)
        self._engines[replica].abort(now, flight.generation)
        self._flights[replica].pop(flight, None)
        self._look(replica)

    def reset(self) -> None:
        """Empty the caches; nothing runs."""
        for watch, engine in zip(self._watches, self._engines, strict=True):
            watch.note(self._clock.now())
            engine.reset()

    def begin_watching(self) -> None:
        """Count memory and queues from now on."""
        for watch in self._watches:
            watch.begin(self._clock.now())

    def usage(self) -> PoolUsage:
        """Return what was counted since then."""
        return combined([watch.usage(self._clock.now()) for watch in self._watches])

    def run(self, until: Callable[[], bool]) -> None:
        """Let time pass until `until` holds, which the events of the clock bring about."""
        clock, dues = self._clock, self._dues
        while not until():
            timer = clock.next_at()
            due = min(dues)
            if due < _NEVER and (timer is None or due <= timer):
                self._advance(dues.index(due), due, _NEVER if timer is None else timer)
            elif timer is not None:
                clock.call_next()
            else:
                raise AssertionError("time stands still: nothing is due and nobody is done")

    def _advance(self, replica: int, now: int, timer: int) -> None:
        """Let a replica do what is due; no timer rings before `timer`."""
        engine, flights = self._engines[replica], self._flights[replica]
        self._clock.move_to(now)
        self._watches[replica].note(now)
        engine.quiet_until = self._quiet_until(replica, now, timer)
        preemptions = engine.totals.preemptions
        engine.advance(now)
        if engine.totals.preemptions > preemptions:
            self._find_stuck(replica)
        for flight in self._over:
            # Who is given up may have been aborted before it was told.
            if flights.pop(flight, None) is not None:
                self._watches[replica].given_up += flight.generation.state is State.GIVEN_UP
        self._over.clear()
        self._look(replica)

    def _quiet_until(self, replica: int, now: int, timer: int) -> int:
        """Return a time before which nobody can submit anything to a replica.

        Requests come when a timer rings or when another one has ended, on any replica.
        """
        ends = self._ends
        if ends[replica] <= now:
            return 0
        return min((timer, *ends[:replica], *ends[replica + 1 :]))

    def _look(self, replica: int) -> None:
        """Note what a replica will do next; something has happened to it."""
        engine = self._engines[replica]
        due, ends = engine.next_due(), engine.ends_from()
        self._dues[replica] = _NEVER if due is None else due
        self._ends[replica] = _NEVER if ends is None else ends

    def _find_stuck(self, replica: int) -> None:
        flights = self._flights[replica]
        for flight, before in flights.items():
            if flight.generation.preemptions > before:
                flights[flight] = flight.generation.preemptions
                self._watches[replica].stuck += flight.is_stuck()
