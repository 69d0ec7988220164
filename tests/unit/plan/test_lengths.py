from __future__ import annotations

from collections import Counter
from statistics import fmean, pstdev

import pytest

from tare.plan.lengths import draw
from tare.plan.order import Lengths
from tare.plan.stream import integer_below, open_unit, word


def drawn(lengths: Lengths, count: int = 4000, seed: int = 7, purpose: str = "isl") -> list[int]:
    return [draw(lengths, seed=seed, entry=entry, purpose=purpose) for entry in range(count)]


def test_a_fixed_length_is_that_length() -> None:
    assert set(drawn(Lengths(value=512), count=10)) == {512}


def test_a_normal_length_has_the_mean_and_deviation_that_were_asked_for() -> None:
    lengths = drawn(Lengths(mean=500, stddev=50))

    assert fmean(lengths) == pytest.approx(500, abs=3)
    assert pstdev(lengths) == pytest.approx(50, rel=0.05)


def test_a_normal_length_is_never_below_one_token() -> None:
    assert min(drawn(Lengths(mean=2, stddev=10))) == 1


def test_a_mean_without_a_deviation_is_rounded_to_a_token() -> None:
    assert set(drawn(Lengths(mean=99.7), count=10)) == {100}


def test_a_uniform_length_takes_each_value_of_the_range_alike() -> None:
    lengths = Counter(drawn(Lengths(min=10, max=13)))

    assert sorted(lengths) == [10, 11, 12, 13]
    assert min(lengths.values()) > 900


def test_weighted_lengths_come_in_the_proportion_of_their_weights() -> None:
    lengths = Counter(drawn(Lengths(values=(100, 200, 300), weights=(1, 0, 3))))

    assert sorted(lengths) == [100, 300]
    assert lengths[300] / lengths[100] == pytest.approx(3, rel=0.1)


def test_values_without_weights_come_alike() -> None:
    lengths = Counter(drawn(Lengths(values=(1, 2))))

    assert lengths[1] == pytest.approx(2000, rel=0.1)


def test_no_distribution_is_an_error_that_says_what_to_give() -> None:
    with pytest.raises(ValueError, match="osl: give a number"):
        draw(Lengths(), seed=0, entry=0, purpose="osl")


def test_a_length_belongs_to_its_entry_in_whichever_order_it_is_asked_for() -> None:
    lengths = Lengths(mean=500, stddev=50)
    backwards = [
        draw(lengths, seed=7, entry=entry, purpose="isl") for entry in reversed(range(100))
    ]

    assert backwards[::-1] == drawn(lengths, count=100)


def test_seeds_and_purposes_give_different_lengths() -> None:
    lengths = Lengths(min=1, max=10**6)
    base = drawn(lengths, count=50)

    assert not set(base) & set(drawn(lengths, count=50, seed=8))
    assert not set(base) & set(drawn(lengths, count=50, purpose="osl"))


def test_a_word_never_changes_between_releases() -> None:
    # A changed stream would make the same manifest another benchmark.
    assert word(7, "isl", 3) == 15_746_794_715_337_059_444
    assert integer_below(1000, 7, "isl", 3) == 853


def test_the_unit_is_open_on_both_sides() -> None:
    units = [open_unit(0, "u", entry) for entry in range(2000)]

    assert 0 < min(units) < 0.01
    assert 0.99 < max(units) < 1
