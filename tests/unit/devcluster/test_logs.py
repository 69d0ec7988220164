"""The log of a container: whole lines, bounded, with the time of each."""

from __future__ import annotations

from datetime import UTC, datetime

from tare.devcluster.node.logs import LogBuffer


def buffer() -> LogBuffer:
    return LogBuffer(lambda: datetime(2026, 1, 1, tzinfo=UTC))


def test_a_line_counts_when_it_is_complete() -> None:
    log = buffer()
    log.append(b"one\ntw")
    before = log.read(0)[1]
    log.append(b"o\n")

    assert [line for _, line in before] == [b"one\n"]
    assert [line for _, line in log.read(1)[1]] == [b"two\n"]


def test_the_rest_counts_at_the_end() -> None:
    log = buffer()
    log.append(b"no newline")
    log.close()

    assert [line for _, line in log.read(0)[1]] == [b"no newline"]


def test_the_oldest_lines_go_when_it_grows_too_large() -> None:
    log = buffer()
    line = b"x" * 1023 + b"\n"
    for _ in range(1030):
        log.append(line)

    position, lines = log.read(0)

    assert position == 1030
    assert len(lines) == 1024
    assert log.read(position)[1] == []
