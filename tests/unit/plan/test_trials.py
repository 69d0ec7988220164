from __future__ import annotations

import pytest

from tare.plan.trials import TrialOrder, schedule


def test_sequential_finishes_a_cell_before_the_next() -> None:
    assert schedule(2, 3, "Sequential") == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2))


def test_interleaved_goes_through_all_cells_in_each_round() -> None:
    assert schedule(2, 3, "Interleaved") == ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2))


def test_shuffled_keeps_the_rounds_and_mixes_the_cells_of_each() -> None:
    order = schedule(20, 2, "Shuffled", seed=3)
    rounds = [[cell for cell, trial in order if trial == which] for which in (0, 1)]

    assert [trial for _, trial in order] == [0] * 20 + [1] * 20
    assert rounds[0] != rounds[1]
    assert rounds[0] != sorted(rounds[0])


def test_a_seed_fixes_the_order() -> None:
    assert schedule(20, 3, "Shuffled", seed=3) == schedule(20, 3, "Shuffled", seed=3)
    assert schedule(20, 3, "Shuffled", seed=3) != schedule(20, 3, "Shuffled", seed=4)


@pytest.mark.parametrize("order", ["Sequential", "Interleaved", "Shuffled"])
def test_every_trial_of_every_cell_is_measured_once(order: TrialOrder) -> None:
    pairs = schedule(7, 3, order, seed=1)

    assert len(pairs) == 21
    assert set(pairs) == {(cell, trial) for cell in range(7) for trial in range(3)}
