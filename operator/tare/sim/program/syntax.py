"""A program as it is written: declarations, statements and expressions, each with its place.

Text (`program.text`) and YAML (`program.document`) both lead here; everything after works on this.
"""

from __future__ import annotations

from dataclasses import dataclass

from tare.sim.program.errors import Place

__all__ = [
    "Arrivals",
    "Binary",
    "Block",
    "Branch",
    "Call",
    "Chance",
    "Choice",
    "Draw",
    "Drop",
    "End",
    "Expression",
    "Hold",
    "Let",
    "Loop",
    "Name",
    "Negation",
    "Number",
    "Observe",
    "PoolDeclaration",
    "Program",
    "RunSettings",
    "RunStage",
    "Set",
    "StageDeclaration",
    "Statement",
    "Turn",
    "Unary",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A literal."""

    value: float
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A constant, an attribute of the session, or something that the context knows."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary:
    """`+` or `-` before a number."""

    sign: str
    operand: Expression
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation:
    """`!` before a truth value."""

    operand: Expression
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Arithmetic, a comparison, or `&&` and `||`."""

    operator: str
    left: Expression
    right: Expression
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`condition ? then : otherwise`; only the branch that is taken is evaluated."""

    condition: Expression
    then: Expression
    otherwise: Expression
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function of numbers."""

    function: str
    arguments: tuple[Expression, ...]
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A random number: `~exp(mean)`."""

    distribution: str
    arguments: tuple[Expression, ...]
    place: Place


Expression = Number | Name | Unary | Negation | Binary | Choice | Call | Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Draw the next turn: the workload's `turn` block."""

    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The session is over."""

    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """Give an attribute of the session a value."""

    name: str
    value: Expression
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe:
    """Record a sample."""

    name: str
    value: Expression
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStage:
    """Spend `work` seconds of work at a stage."""

    stage: str
    work: Expression
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Discard the session's cached prefix in a pool."""

    pool: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Repeat until something inside ends the session."""

    body: Block
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A test."""

    condition: Expression
    then: Block
    otherwise: Block
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """A draw: `then` with this probability."""

    probability: Expression
    then: Block
    otherwise: Block
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Hold units of a pool while the body runs."""

    pool: str
    units: Expression
    reuse: Expression | None
    """Most units of the own prefix that are taken over; None for all of them."""
    body: Block
    cache: Expression | None
    """What stays cached afterwards; None: a prefix is neither taken nor left."""
    place: Place


Statement = Turn | End | Set | Observe | RunStage | Drop | Loop | Branch | Chance | Hold
Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Let:
    """A constant that `--set` can override."""

    name: str
    value: Expression
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDeclaration:
    """A pool of memory units."""

    name: str
    cap: Expression | None
    """None for no limit."""
    block: Expression | None
    evict_by: tuple[Expression, ...]
    """Keys in ascending order; none for the least recently used first."""
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDeclaration:
    """A stage: `fifo` with a number of servers, `delay`, or `ps` with a rate."""

    name: str
    kind: str
    argument: Expression | None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """How sessions arrive: `poisson`, `renewal`, `batch` or `closed`."""

    kind: str
    argument: Expression
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How long, and with which random numbers."""

    horizon: Expression
    warmup: Expression | None
    seed: Expression | None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A whole program."""

    lets: tuple[Let, ...]
    pools: tuple[PoolDeclaration, ...]
    stages: tuple[StageDeclaration, ...]
    arrivals: Arrivals
    init: Block
    turn: Block
    session: Block
    run: RunSettings
