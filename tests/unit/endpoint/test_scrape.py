"""Counters of a server, as its Prometheus endpoint says them."""

from __future__ import annotations

import pytest

from tare.endpoint.scrape import read_counts
from tare.measure.servers import ServerCount, ServerCounts, ServerFact, shifted

VLLM = """\
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1000.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 24.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="length"} 3.0
vllm:request_success_total{engine="0",finished_reason="stop"} 4.0
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits{engine="0"} 64.0
# TYPE vllm:external_prefix_cache_hits_total counter
vllm:external_prefix_cache_hits_total{engine="0"} 1024.0
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.0
"""


def test_samples_of_all_engines_and_reasons_are_added_up() -> None:
    assert read_counts(VLLM, "vllm") == {
        ServerCount.PROMPT_TOKENS: 1024.0,
        ServerCount.REQUESTS: 7.0,
        ServerCount.CACHE_HITS: 64.0,
        ServerCount.EXTERNAL_HITS: 1024.0,
    }


def test_a_server_tells_its_start_and_how_the_caches_of_its_engines_are_made() -> None:
    text = """\
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7640576e+09
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="900"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="870"} 1.0
"""
    assert read_counts(text, "vllm") == {
        ServerFact.STARTED: 1764057600.0,
        ServerFact.ENGINES: 2.0,
        ServerFact.BLOCK_SIZE: 16.0,
        ServerFact.BLOCKS: 870.0,
    }
    unsized = text.replace('num_gpu_blocks="900"', 'num_gpu_blocks="None"')
    assert read_counts(unsized, "vllm")[ServerFact.BLOCKS] == 870.0


def test_tensorrt_llm_counts_cached_tokens_under_its_own_name() -> None:
    text = "# TYPE trtllm_prompt_cached_tokens counter\ntrtllm_prompt_cached_tokens_total 64\n"
    assert read_counts(text, "trtllm") == {ServerCount.CACHE_HITS: 64.0}


@pytest.mark.parametrize("text", ["[]", "{not prometheus", ""])
def test_what_is_no_exposition_says_nothing(text: str) -> None:
    assert read_counts(text, "vllm") == {}


def test_a_counter_that_fell_says_nothing_about_the_trial() -> None:
    restarted = ServerCounts(replica="a", before={"requests": 10.0}, after={"requests": 3.0})
    assert restarted.delta(ServerCount.REQUESTS) is None


def test_the_difference_is_what_happened_in_between() -> None:
    counts = ServerCounts(replica="a", before={"requests": 10.0}, after={"requests": 13.0})
    assert counts.delta(ServerCount.REQUESTS) == 3
    assert counts.delta(ServerCount.PROMPT_TOKENS) is None


def test_a_stretch_that_is_none_of_the_trial_is_taken_out_of_its_counters() -> None:
    before = {"a": {"requests": 10.0, "prompt_tokens": 5.0}, "b": {"requests": 1.0}, "c": {}}
    begin = {"a": {"requests": 12.0, "prompt_tokens": 9.0}, "b": {"requests": 1.0}}
    end = {"a": {"requests": 15.0}, "b": {"requests": 4.0}, "c": {"requests": 2.0}}
    found = {"a": {"requests": 13.0}, "b": {"requests": 4.0}, "c": {}}
    assert shifted(before, begin, end) == found


def test_what_a_server_is_does_not_shift_with_what_it_counts() -> None:
    name = ServerFact.STARTED.value
    begin, end = {"a": {name: 5.0}}, {"a": {name: 9.0}}
    assert shifted(begin, begin, end) == begin
    assert shifted(begin, {}, {}) == begin, "though nobody could be asked meanwhile"
