from __future__ import annotations

from itertools import islice

from tare.sim.core.streams import (
    chacha_key,
    key_of,
    new_ordered,
    next_keyed,
    next_ordered,
    ordered,
    scattered,
    turn_key,
)

# Key 0, nonce 0, 12 rounds: the published test vector of ChaCha12 (draft-strombergson-chacha).
_KEYSTREAM = bytes.fromhex("9bf49a6a0755f953811fce125f2683d50429c3bb49e074147e0089a52eae155f")


def test_ordered_numbers_are_the_top_bits_of_the_published_keystream() -> None:
    words = [int.from_bytes(_KEYSTREAM[at : at + 8], "little") for at in range(0, 32, 8)]
    assert list(islice(ordered((0,) * 8), 4)) == [(word >> 11) * 2.0**-53 for word in words]


def test_many_blocks_at_once_are_the_same_as_one_after_the_other() -> None:
    key = chacha_key(1)
    stream = new_ordered(key)
    count = 9_000  # more than two batches
    assert list(islice(ordered(key), count)) == [next_ordered(stream) for _ in range(count)]


def test_the_counter_carries_into_its_second_word() -> None:
    stream = new_ordered(chacha_key(1))
    stream.words[12] = 0xFFFFFFFF
    next_ordered(stream)
    assert stream.words[12:14] == [0, 1]


def test_a_seed_is_expanded_as_the_rust_crate_does_it() -> None:
    # The bytes that rand_core's own test of `seed_from_u64(0)` begins with.
    assert chacha_key(0)[0].to_bytes(4, "little") == bytes.fromhex("ecf273f9")
    assert all(0 <= word < 2**32 for word in chacha_key(2**64 - 1))


def number(seed: int, session: int, turn: int, place: int) -> float:
    return next_keyed(turn_key(key_of(seed, session), turn), place)


def test_words_are_scattered_as_splitmix64_does_it() -> None:
    # The first outputs of the reference implementation for seed 0.
    golden = 0x9E3779B97F4A7C15
    outputs = [scattered(golden * place) for place in (1, 2, 3)]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_keyed_numbers_depend_on_their_key_alone() -> None:
    assert number(1, 7, 3, 5) == number(1, 7, 3, 5)
    others = {(1, 7, 4, 5), (1, 8, 3, 5), (2, 7, 3, 5), (1 + 2**40, 7, 3, 5), (1, 7, 3, 6)}
    assert len({number(*other) for other in others} | {number(1, 7, 3, 5)}) == 6


def test_keyed_numbers_are_spread_evenly() -> None:
    cells = [0] * 64
    for session in range(64 * 500 // 8):
        for place in range(8):
            cells[int(number(3, session, 1, place) * 64)] += 1
    chi_squared = sum((cell - 500) ** 2 / 500 for cell in cells)
    assert 30 < chi_squared < 110  # 63 degrees of freedom: 99.99 % are below 110


def test_keyed_numbers_of_neighbours_are_not_correlated() -> None:
    count = 20_000
    here = [number(1, session, 1, 0) - 0.5 for session in range(count)]
    after = [number(1, session, 2, 0) - 0.5 for session in range(count)]
    beside = [number(1, session, 1, 1) - 0.5 for session in range(count)]
    for other in (after, beside, [*here[1:], here[0]]):
        correlation = sum(a * b for a, b in zip(here, other, strict=True)) / count * 12
        assert abs(correlation) < 4 / count**0.5
