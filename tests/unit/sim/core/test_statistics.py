from __future__ import annotations

import math

import pytest

from tare.sim.core.statistics import batch_means, summarize


def test_fewer_than_forty_samples_have_no_interval() -> None:
    assert batch_means([1.0, 2.0] * 19) is None
    assert batch_means([1.0, 2.0] * 20) == 0.0


def test_the_interval_comes_from_the_spread_of_twenty_batches() -> None:
    samples = [float(batch % 2) for batch in range(20) for _ in range(3)]
    deviation = math.sqrt(20 * 0.25 / 19)
    assert batch_means(samples) == pytest.approx(2.093 * deviation / math.sqrt(20))


def test_what_does_not_fill_a_batch_is_left_out_of_the_interval_but_not_of_the_mean() -> None:
    samples = [1.0] * 40 + [1000.0]
    assert batch_means(samples) == 0.0
    assert summarize(samples).mean == pytest.approx(1040 / 41)


def test_the_99th_percentile_is_the_sample_at_the_rounded_up_rank() -> None:
    assert summarize([float(n) for n in range(1, 101)]).p99 == 99.0
    assert summarize([float(n) for n in range(1, 102)]).p99 == 100.0


def test_squared_variation_is_that_of_the_sample() -> None:
    assert summarize([1.0, 3.0]).squared_variation == pytest.approx(2.0 / 4.0)


def test_no_sample_has_no_numbers() -> None:
    summary = summarize([])
    assert (summary.count, summary.mean, summary.p99) == (0, None, None)
