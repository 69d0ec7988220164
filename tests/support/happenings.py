"""What may happen to a `World`, for random walks: all of it, at any moment, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HAPPENINGS"]

HAPPENINGS: dict[str, Callable[[World], object]] = {
    "pass": World.step,
    "operations end": World.finish_ops,
    "workers move": World.move_workers,
    "answers end": World.end_answers,
    "operator crashes": World.crash,
    "operator crashes before the answer": World.crash_in_operations,
    "worker dies": World.lose_worker,
    "somebody deletes the Job": World.delete_job,
    "cancelled": lambda world: world.patch_spec(cancel=True),
    "suspended": lambda world: world.patch_spec(suspend=True),
    "resumed": lambda world: world.patch_spec(suspend=False),
    "deleted": World.delete,
}
