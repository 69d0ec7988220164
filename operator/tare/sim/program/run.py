"""Runs of a program: from its syntax to the numbers of one run.

A program is loaded once and can run many times with other constants and seeds. Whatever goes wrong
inside a run is told with the place of the statement that did it.
"""

from __future__ import annotations

import ast
import heapq
import math
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tare.sim.core import areas, draws, pool, stages, streams
from tare.sim.core.accelerate import compiled, compiled_names
from tare.sim.core.flatten import flatten
from tare.sim.program.constants import Settings, resolve
from tare.sim.program.emit import Kernel, Options, emit
from tare.sim.program.errors import ProgramError
from tare.sim.program.names import check
from tare.sim.program.outcome import collect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tare.sim.program.outcome import Outcome
    from tare.sim.program.syntax import Program

__all__ = ["MAX_STEPS", "Model"]

MAX_STEPS: Final = 10_000_000
"""Events after which a run is given up: about a minute in plain Python."""

_WRONG: Final = (ArithmeticError, ValueError)
_INLINED: Final = {
    name: getattr(module, name)
    for module in (areas, pool, stages)
    for name in module.__all__
    if name.islower() and not name.startswith("new_")
}
_TUPLES: Final = {"new_pool": pool.Pool._fields, "new_stage": stages.Stage._fields}
_numbers = count(1)


class Model:
    """A program that is ready to run."""

    def __init__(self, program: Program) -> None:
        """Check a program with the constants that are written in it.

        Raises:
            ProgramError: with the place of the first thing that is wrong.
        """
        self.program = program
        self._kernels: dict[Options, _Runnable] = {}
        try:
            self.names = check(program, resolve(program, {}).constants)
        except RecursionError:
            raise ProgramError("an expression of the program is nested too deeply") from None

    def run(
        self,
        overrides: Mapping[str, float] | None = None,
        *,
        seed: int | None = None,
        keyed: bool = False,
        fast: bool = False,
        max_steps: int = MAX_STEPS,
    ) -> Outcome:
        """Run the program once.

        Args:
            overrides: other values of its constants.
            seed: another seed.
            keyed: draw by (seed, session, turn), so that runs with other constants see the same
                sessions and turns, instead of from streams that are read in order.
            fast: let numba compile the kernel first; the numbers are the same.
            max_steps: events after which the run is given up.

        Raises:
            ProgramError: an impossible value, before or during the run, or no end to it.
        """
        settings = resolve(self.program, overrides or {}, seed)
        check(self.program, settings.constants)
        runnable = self._runnable(Options(keyed=keyed, compiled=fast), settings)
        try:
            raw = runnable(settings, max_steps)
        except _WRONG as error:
            if fast:  # compiled code does not know its lines: let plain Python run into it again
                return self.run(overrides, seed=seed, keyed=keyed, max_steps=max_steps)
            raise runnable.explained(error, max_steps) from None
        return collect(self.program, self.names, settings, raw)

    def _runnable(self, options: Options, settings: Settings) -> _Runnable:
        found = self._kernels.get(options)
        if found is None:
            kernel = emit(self.program, self.names, settings.constants, options)
            found = self._kernels[options] = _Runnable(kernel, options)
        return found


class _Runnable:
    """A kernel as a function of Python or of numba."""

    def __init__(self, kernel: Kernel, options: Options) -> None:
        self._options = options
        self._places = kernel.places
        self._file = f"<program {next(_numbers)}>"
        tree = flatten(kernel.source, _INLINED, _TUPLES)
        code = compile(ast.fix_missing_locations(tree), self._file, "exec")
        namespace = dict(_namespace(compiled=options.compiled))
        exec(code, namespace)  # noqa: S102 - written by `emit` from a checked syntax tree
        function = namespace["kernel"]
        self._function: Callable[..., Any] = compiled(function) if options.compiled else function

    def __call__(self, settings: Settings, max_steps: int) -> Any:
        keys: Any
        chosen = streams.run_keys(settings.seed)
        if self._options.keyed:
            keys = 0
        elif self._options.compiled:
            keys = chosen
        else:
            keys = tuple(streams.ordered(key).__next__ for key in chosen)
        numbers = (settings.horizon, settings.warmup, max_steps, settings.seed)
        return self._function(tuple(settings.constants.values()), numbers, keys)

    def explained(self, error: Exception, max_steps: int) -> ProgramError:
        """Say what went wrong in the kernel, and which statement of the program did it."""
        line, traceback = 0, error.__traceback__
        while traceback:
            if traceback.tb_frame.f_code.co_filename == self._file:
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        place = self._places.get(line)
        match error.args:
            case ("steps", float() as now):
                message = (
                    f"given up after {max_steps:,} events, at {now:g} s: shorten the horizon, or "
                    "allow more with --max-steps; are there more arrivals than can be served?"
                )
            case ("rounds", float() as now):
                message = f"time stands still at {now:g} s: this loop goes round without a wait"
            case (str() as what, float() | int() as value):
                message = f"{what} {value:g}"
                if math.isnan(value):
                    message += " (no number: is an attribute read before it is set?)"
            case _:
                message = f"no value can be computed here: {error}"
        return ProgramError(message, place)


@cache
def _namespace(*, compiled: bool) -> Mapping[str, Any]:
    """Return what a kernel can name."""
    names: dict[str, Any] = {
        name: getattr(module, name)
        for module in (areas, draws, pool, stages, streams)
        for name in module.__all__
        if module is not stages or not name.isupper()
    }
    if compiled:
        names |= compiled_names(names, set(names))
    return names | {
        "ceil": math.ceil,
        "exp": math.exp,
        "floor": math.floor,
        "heappop": heapq.heappop,
        "heapq": heapq,
        "heappush": heapq.heappush,
        "inf": math.inf,
        "log": math.log,
        "math": math,
        "nan": math.nan,
        "power": math.pow,
        "sqrt": math.sqrt,
    }
