from __future__ import annotations

import math
import random
from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.measure.batch import Batch
from tare.measure.histogram import EXACT_VALUES, Histogram

LATENCIES = st.integers(min_value=0, max_value=10**13)


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


def record_all(histogram: Histogram, values: list[int]) -> None:
    if values:
        histogram.record_all(Batch(values))


def nearest_rank(values: list[int], percent: int) -> int:
    return sorted(values)[max(math.ceil(percent * len(values) / 100), 1) - 1]


def many_latencies(count: int = 5 * EXACT_VALUES) -> list[int]:
    source = random.Random(1)  # noqa: S311 - numbers for a test
    return [round(source.lognormvariate(18, 1.5)) for _ in range(count)]


def test_an_empty_histogram_answers_none_and_never_zero() -> None:
    empty = Histogram()

    answers = (empty.percentile(50), empty.mean, empty.minimum, empty.maximum, empty.stddev)

    assert answers == (None, None, None, None, None)
    assert (empty.count, empty.sum, empty.to_json()) == (0, 0, {})


@settings(deadline=None)
@given(st.lists(LATENCIES, min_size=1, max_size=300), st.integers(0, 100))
def test_a_percentile_is_the_nearest_rank_exactly_while_values_are_few(
    values: list[int], percent: int
) -> None:
    assert histogram_of(values).percentile(percent) == nearest_rank(values, percent)


@pytest.mark.parametrize(
    ("percent", "rank"), [(0, 1), (0.5, 5), (50, 500), (99, 990), (99.9, 999), (100, 1000)]
)
def test_no_rounding_error_moves_a_rank(percent: float, rank: int) -> None:
    assert histogram_of(list(range(1, 1001))).percentile(percent) == rank


@pytest.mark.parametrize("percent", [1, 10, 50, 90, 95, 99])
def test_a_percentile_of_many_values_is_within_half_a_percent(percent: int) -> None:
    values = many_latencies()
    histogram = histogram_of(values)

    assert not histogram.exact
    assert histogram.percentile(percent) == pytest.approx(nearest_rank(values, percent), rel=0.005)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=2**63))
def test_every_single_value_is_within_half_a_percent_of_its_bucket(value: int) -> None:
    histogram = histogram_of([0, 2**64, *range(10**6, 10**6 + EXACT_VALUES)])
    histogram.record(value, 10_000)

    assert not histogram.exact
    assert histogram.percentile(50) == pytest.approx(value, rel=0.005)


def test_minimum_maximum_mean_and_deviation_stay_exact_with_many_values() -> None:
    values = many_latencies()
    histogram = histogram_of(values)
    mean = sum(values) / len(values)

    assert histogram.minimum == min(values)
    assert histogram.maximum == max(values)
    assert histogram.sum == sum(values)
    assert histogram.mean == pytest.approx(mean, rel=1e-12)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    assert histogram.stddev == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_no_percentile_lies_outside_of_what_was_recorded() -> None:
    # All in one bucket, whose middle is below the first and above the last of them.
    low = histogram_of([2**40, *range(2**20 + 5000, 2**20 + 5000 + EXACT_VALUES)])
    high = histogram_of([0, *range(2**20, 2**20 + EXACT_VALUES + 1)])

    assert not low.exact
    assert not high.exact
    assert low.percentile(1) == low.minimum
    assert high.percentile(99) == high.maximum


def test_one_more_distinct_value_than_is_kept_switches_to_buckets() -> None:
    full = histogram_of([1000 * i for i in range(EXACT_VALUES)] * 3)
    assert full.exact

    full.record(7)

    assert not full.exact


@settings(deadline=None)
@given(
    values=st.lists(LATENCIES, max_size=400),
    extra=st.booleans(),
    parts=st.integers(1, 7),
    seed=st.integers(0, 2**32),
)
def test_the_result_depends_on_the_multiset_and_on_no_partition_or_order(
    values: list[int], parts: int, seed: int, *, extra: bool
) -> None:
    everything = values + (many_latencies(EXACT_VALUES + 1) if extra else [])
    source = random.Random(seed)  # noqa: S311 - numbers for a test
    shares: list[list[int]] = [[] for _ in range(parts)]
    for value in source.sample(everything, len(everything)):
        source.choice(shares).append(value)

    merged = Histogram.merged(histogram_of(share) for share in shares)

    assert merged.to_json() == histogram_of(everything).to_json()


def test_a_merge_leaves_the_other_histogram_as_it_was() -> None:
    target, other = histogram_of([1]), histogram_of([2, 3])

    target.merge(other)

    assert (target.count, other.count) == (3, 2)
    assert other.to_json() == histogram_of([2, 3]).to_json()


@pytest.mark.parametrize("values", [[], [5], [0, 0, 9], many_latencies()])
def test_json_carries_everything(values: list[int]) -> None:
    histogram = histogram_of(values)

    read = Histogram.from_json(orjson.loads(orjson.dumps(histogram.to_json())))
    read.record(12)
    histogram.record(12)

    assert read.to_json() == histogram.to_json()
    assert read.stddev == histogram.stddev


def test_json_of_a_million_requests_stays_below_sixteen_kibibytes() -> None:
    histogram = histogram_of(many_latencies(20_000))

    assert len(orjson.dumps(histogram.to_json())) < 16_384


def test_recording_a_count_is_recording_that_many_times() -> None:
    at_once = Histogram()
    at_once.record(40, 3)

    assert at_once.to_json() == histogram_of([40, 40, 40]).to_json()


@pytest.mark.parametrize(("value", "count"), [(-1, 1), (1, 0), (1, -2)])
def test_a_negative_value_or_an_empty_count_is_refused(value: int, count: int) -> None:
    with pytest.raises(ValueError, match="values are >= 0"):
        Histogram().record(value, count)


def test_a_percentage_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="0 to 100"):
        histogram_of([1]).percentile(101)


BUCKETED = histogram_of(many_latencies()).to_json()


@pytest.mark.parametrize(
    "document",
    [
        {"other": 1},
        {"values": "12"},
        {"values": [1, 0]},
        {"values": [-1]},
        {"values": [1.5]},
        {"values": [1, 2], "counts": [1]},
        {"values": [1], "counts": [0]},
        {**BUCKETED, "sum": "1"},
        {**BUCKETED, "squares": "9" * 400},
        {**BUCKETED, "buckets": [2**60, *BUCKETED["buckets"][1:]]},
        {key: value for key, value in BUCKETED.items() if key != "minimum"},
    ],
)
def test_a_document_that_is_no_histogram_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a histogram"):
        Histogram.from_json(document)


def test_buckets_have_no_gaps_and_keep_the_order() -> None:
    # Powers of two and their neighbours are where a wrong shift would show.
    edges = sorted({max(2**power + step, 0) for power in range(50) for step in (-1, 0, 1)})
    histogram = histogram_of([*range(5000, 5000 + EXACT_VALUES), *edges])
    percentiles = [histogram.percentile(percent) for percent in range(101)]

    assert all(a <= b for a, b in pairwise(percentiles) if a is not None and b is not None)


ANY = LATENCIES | st.integers(0, 300) | st.integers(2**52, 2**70)


@settings(deadline=None)
@given(
    parts=st.lists(st.lists(ANY, max_size=60), max_size=6),
    many=st.booleans(),
    one_by_one=st.sets(st.integers(0, 6)),
)
def test_values_recorded_at_once_are_the_same_as_one_by_one(
    parts: list[list[int]], one_by_one: set[int], *, many: bool
) -> None:
    parts = [many_latencies(EXACT_VALUES + 1), *parts] if many else parts
    histogram = Histogram()
    for number, part in enumerate(parts):
        if number in one_by_one:
            histogram.merge(histogram_of(part))
        else:
            record_all(histogram, part)

    assert histogram.to_json() == histogram_of([v for part in parts for v in part]).to_json()


@pytest.mark.parametrize("shift", range(54))
def test_both_ends_of_a_bucket_are_counted_in_it_when_recorded_at_once(shift: int) -> None:
    switch = list(range(10**6, 10**6 + EXACT_VALUES + 1))
    edges = [max((128 << shift) + step, 0) for step in (-1, 0, 1)]
    edges += [(255 << shift) + step for step in (-1, 0, 1)] + [256 << shift]
    at_once = histogram_of(switch)
    record_all(at_once, edges)
    singly = histogram_of(switch)
    for edge in edges:
        singly.record(edge, 2)
        singly.record(edge)
    record_all(at_once, edges * 2)

    assert at_once.to_json() == singly.to_json()


def test_a_negative_value_spoils_all_that_are_recorded_at_once() -> None:
    with pytest.raises(ValueError, match="-1"):
        Batch([1, -1])


def test_several_histograms_record_one_batch_as_if_it_were_theirs_alone() -> None:
    batch = Batch(many_latencies(100))
    few, many = Histogram(), histogram_of(many_latencies())
    alone = histogram_of(many_latencies())
    for histogram in (few, many, few):
        histogram.record_all(batch)
    record_all(alone, list(batch.values))

    assert few.to_json() == histogram_of(list(batch.values) * 2).to_json()
    assert many.to_json() == alone.to_json()


def test_asking_in_between_changes_nothing() -> None:
    values = many_latencies(4 * EXACT_VALUES)
    asked, unasked = Histogram(), Histogram()
    for start in range(0, len(values), 100):
        record_all(asked, values[start : start + 100])
        record_all(unasked, values[start : start + 100])
        asked.percentile(50)

    assert asked.to_json() == unasked.to_json()
